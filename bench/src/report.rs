//! The tables on stdout and the JSON beside them. What is measured the scenarios know; here are figures by name, and bounds.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::cpu::{self, Share};
use crate::samples::Spread;
use crate::stage::Facts;

/// What a scenario has found.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    pub(crate) title: &'static str,
    /// Names of figures, in the order of the table. The unit is part of a name.
    pub(crate) columns: &'static [&'static str],
    pub(crate) samples: Vec<Sample>,
    pub(crate) targets: Vec<Target>,
    /// What one has to know to read it.
    pub(crate) notes: Vec<String>,
}

/// One measurement of one round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    pub(crate) round: u32,
    pub(crate) what: String,
    pub(crate) figures: BTreeMap<&'static str, f64>,
    #[serde(flatten)]
    pub(crate) cpu: Share,
}

/// A target of performance.md. Only rounds in which nobody else was at work decide: a disturbance hits one of two neighbours.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) claim: String,
    pub(crate) bound: Bound,
    pub(crate) seen: Vec<Seen>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// What a target is about, in one round.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) value: f64,
    pub(crate) calm: bool,
}

/// The calls of the command line that the figures come from.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Repetitions {
    pub(crate) rounds: u32,
    pub(crate) seconds: u32,
}

impl Sample {
    pub(crate) fn new(
        round: u32,
        what: impl Into<String>,
        figures: impl IntoIterator<Item = (&'static str, f64)>,
        cpu: Share,
    ) -> Self {
        Self { round, what: what.into(), figures: figures.into_iter().collect(), cpu }
    }
}

impl Findings {
    /// A figure in each round.
    pub(crate) fn each_round(samples: &[Sample], what: &str, figure: &str) -> Vec<Seen> {
        let of = samples.iter().filter(|sample| sample.what == what);
        of.filter_map(|sample| Some(Seen { value: *sample.figures.get(figure)?, calm: sample.cpu.is_calm() })).collect()
    }

    /// The same of what others on the machine do not change: counts, memory, what settings decide.
    pub(crate) fn whatever_the_noise(samples: &[Sample], what: &str, figure: &str) -> Vec<Seen> {
        Self::each_round(samples, what, figure).into_iter().map(|seen| Seen { calm: true, ..seen }).collect()
    }

    /// The ratio of a figure to another of the same round; calm where both are.
    pub(crate) fn ratios(samples: &[Sample], ours: (&str, &str), theirs: (&str, &str)) -> Vec<Seen> {
        let of = |(what, figure)| Self::each_round(samples, what, figure);
        let pairs = of(ours).into_iter().zip(of(theirs));
        pairs.map(|(ours, theirs)| Seen { value: ours.value / theirs.value, calm: ours.calm && theirs.calm }).collect()
    }

    fn markdown(&self) -> String {
        let mut out = format!("## {}\n\n| |", self.title);
        let columns = self.columns.iter().filter(|name| self.samples.iter().any(|sample| sample.figures.contains_key(*name)));
        let columns: Vec<&str> = columns.copied().collect();
        columns.iter().for_each(|name| out.extend([" ", name, " |"]));
        out.push_str(" CPU µs each: client / server / worker / Postgres | others % |\n| --- |");
        columns.iter().for_each(|_| out.push_str(" --- |"));
        out.push_str(" --- | --- |\n");
        let mut named: Vec<&str> = Vec::new();
        for sample in &self.samples {
            if !named.contains(&sample.what.as_str()) {
                named.push(&sample.what);
            }
        }
        named.iter().for_each(|what| self.row(&mut out, what, &columns));
        if !self.targets.is_empty() {
            out.push_str("\n| target | seen | calm rounds | met |\n| --- | --- | --- | --- |\n");
            self.targets.iter().for_each(|target| target.row(&mut out));
        }
        self.notes.iter().for_each(|note| out.extend(["\n", note, "\n"]));
        out.push('\n');
        out
    }

    // Writing to a String cannot fail, here and below.
    fn row(&self, out: &mut String, what: &str, columns: &[&str]) {
        let samples = || self.samples.iter().filter(|sample| sample.what == what);
        let _ = write!(out, "| {what} |");
        for name in columns {
            let values: Vec<f64> = samples().filter_map(|sample| sample.figures.get(name).copied()).collect();
            let shown = if values.is_empty() { String::new() } else { spread(Spread::of(values)) };
            let _ = write!(out, " {shown} |");
        }
        let cpu = |figure: fn(&Share) -> f64| number(Spread::of(samples().map(|sample| figure(&sample.cpu))).median);
        let _ = writeln!(
            out,
            " {} / {} / {} / {} | {} |",
            cpu(|share| share.client_us),
            cpu(|share| share.server_us),
            cpu(|share| share.worker_us),
            cpu(|share| share.postgres_us),
            spread(Spread::of(samples().map(|sample| sample.cpu.others_percent))),
        );
    }
}

impl Seen {
    /// How many times better than the bound; below one the target is missed.
    pub(crate) fn advantage(self, bound: Bound) -> f64 {
        match bound {
            Bound::AtMost(most) => most / self.value,
            Bound::AtLeast(least) => self.value / least,
        }
    }
}

impl Target {
    /// Whether the median of the calm rounds is within the bound. None without a calm round.
    fn is_met(&self) -> Option<bool> {
        let calm: Vec<f64> = self.seen.iter().filter(|seen| seen.calm).map(|seen| seen.value).collect();
        let median = (!calm.is_empty()).then(|| Spread::of(calm).median)?;
        Some(match self.bound {
            Bound::AtMost(bound) => median <= bound,
            Bound::AtLeast(bound) => median >= bound,
        })
    }

    fn row(&self, out: &mut String) {
        let (sign, bound) = match self.bound {
            Bound::AtMost(bound) => ("≤", bound),
            Bound::AtLeast(bound) => ("≥", bound),
        };
        let (shown, calm) = if self.seen.is_empty() {
            ("not measured".to_owned(), 0)
        } else {
            let calm = self.seen.iter().filter(|seen| seen.calm).count();
            (spread(Spread::of(self.seen.iter().map(|seen| seen.value))), calm)
        };
        let met = match self.is_met() {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "unknown",
        };
        let _ = writeln!(out, "| {} {sign} {bound} | {shown} | {calm} of {} | {met} |", self.claim, self.seen.len());
    }
}

/// What comes before all tables.
pub(crate) fn head(facts: &Facts, repetitions: Repetitions) -> String {
    let Facts { cpu, cores, kernel, postgres, began, load_average_before } = facts;
    let Repetitions { rounds, seconds } = repetitions;
    format!(
        "{began}: {cores} cores ({cpu}), Linux {kernel}, PostgreSQL {postgres}, fsync and synchronous_commit on; load average \
         {load_average_before:.1} before. {rounds} rounds, {seconds} s where a measurement has a length: median (min to max). A round is \
         calm where others used at most {} % of the processors; only calm rounds decide whether a target is met.\n\n",
        cpu::OTHERS_PERCENT_MAX,
    )
}

/// Prints what a scenario has found, and keeps it as JSON.
pub(crate) fn publish(findings: &Findings, facts: &Facts, repetitions: Repetitions, file: &Path) -> Result<()> {
    #[derive(Serialize)]
    struct Whole<'w> {
        facts: &'w Facts,
        load_average_after: f64,
        #[serde(flatten)]
        repetitions: Repetitions,
        #[serde(flatten)]
        findings: &'w Findings,
        /// In the order of the targets.
        met: Vec<Option<bool>>,
    }
    print!("{}", findings.markdown());
    let met = findings.targets.iter().map(Target::is_met).collect();
    let whole = Whole { facts, load_average_after: cpu::load_average()?, repetitions, findings, met };
    let text = serde_json::to_string_pretty(&whole).context("the findings as JSON")?;
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

fn spread(Spread { median, min, max }: Spread) -> String {
    if min == max { number(median) } else { format!("{} ({} to {})", number(median), number(min), number(max)) }
}

/// Three digits and more of anything.
fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(bound: Bound, seen: &[(f64, bool)]) -> Option<bool> {
        let seen = seen.iter().map(|&(value, calm)| Seen { value, calm }).collect();
        Target { claim: String::new(), bound, seen }.is_met()
    }

    #[test]
    fn only_calm_rounds_decide() {
        assert_eq!(target(Bound::AtLeast(1.0), &[(2.0, true), (0.1, false)]), Some(true));
        assert_eq!(target(Bound::AtMost(1.0), &[(2.0, true), (0.1, false)]), Some(false));
        assert_eq!(target(Bound::AtMost(1.0), &[(0.1, false)]), None);
    }
}
