//! The table on stdout and the JSON beside it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::cpu;
use crate::samples::Spread;
use crate::scenarios::submit::{Outcome, Sample, Way};
use crate::stage::Facts;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) facts: Facts,
    pub(crate) load_average_after: f64,
    /// Rounds, and seconds of each measurement.
    pub(crate) plan: (u32, u32),
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

impl Report {
    /// Medians over the rounds, with the least and the greatest.
    pub(crate) fn markdown(&self) -> String {
        let mut out = self.head();
        out.push_str("| submit | clients | per s | p50 ms | p99 ms | ratio to the statement | target | met | CPU µs each: client / API / Postgres |\n");
        out.push_str("| --- | ---: | --- | --- | --- | --- | --- | --- | --- |\n");
        for (way, title) in [
            (Way::Statement, "pgbench, one statement"),
            (Way::StatementWithNotify, "the same with NOTIFY inside"),
            (Way::Baton, "Baton over HTTP with a key"),
        ] {
            for clients in [1, 16, 64] {
                self.row(&mut out, way, title, clients);
            }
        }
        out.push_str("\nNot compared: Absurd and Restate, which are not installed by this bench.\n");
        out
    }

    fn head(&self) -> String {
        let Facts { cpu, cores, kernel, postgres, began, load_average_before } = &self.facts;
        let (rounds, seconds) = self.plan;
        let commit = self.outcome.commit_ms;
        let others = Spread::of(self.outcome.samples.iter().map(|sample| sample.cpu.others_percent));
        let calm = if others.max <= cpu::OTHERS_PERCENT_MAX {
            ""
        } else {
            " **That is too much in some rounds: only calm ones decide.**"
        };
        format!(
            "{began}: {cores} cores ({cpu}), Linux {kernel}, PostgreSQL {postgres}, fsync and synchronous_commit on; \
             load average {load_average_before:.1} before, {:.1} after; others used {} % of the processors.{calm}\n\
             F = {} ms, the median of an empty commit by pgbench at 1 client, its round trip included. \
             {rounds} rounds of {seconds} s: median (min to max).\n\n",
            self.load_average_after,
            spread(others, 0),
            spread(commit, 2),
        )
    }

    fn row(&self, out: &mut String, way: Way, title: &str, clients: u16) {
        let samples = |way: Way| self.outcome.samples.iter().filter(move |sample| sample.way == way && sample.clients == clients);
        let of = |figure: fn(&Sample) -> f64| Spread::of(samples(way).map(figure));
        let ratio = Spread::of(
            samples(way).zip(samples(Way::Statement)).map(|(ours, theirs)| ours.rate.per_second / theirs.rate.per_second),
        );
        let target = self.outcome.targets.iter().find(|target| target.clients == clients && way == Way::Baton);
        let (claim, met) = target.map_or((String::new(), ""), |target| {
            let ratio = target.ratio.map_or_else(|| "not measured".to_owned(), |ratio| spread(ratio, 2));
            let met = match target.met {
                Some(true) => "yes",
                Some(false) => "**no**",
                None => "unknown",
            };
            (format!("{}: {ratio} in {} calm rounds", target.claim, target.calm_rounds), met)
        });
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| {title} | {clients} | {} | {} | {} | {} | {claim} | {met} | {:.0} / {:.0} / {:.0} |",
            spread(of(|sample| sample.rate.per_second), 0),
            spread(of(|sample| sample.rate.p50_ms), 2),
            spread(of(|sample| sample.rate.p99_ms), 2),
            spread(ratio, 2),
            of(|sample| sample.cpu.generator_us).median,
            of(|sample| sample.cpu.api_us).median,
            of(|sample| sample.cpu.postgres_us).median,
        );
    }

    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("the report as JSON")?;
        fs::write(file, text).with_context(|| format!("writing {}", file.display()))
    }
}

fn spread(Spread { median, min, max }: Spread, decimals: usize) -> String {
    format!("{median:.decimals$} ({min:.decimals$} to {max:.decimals$})")
}
