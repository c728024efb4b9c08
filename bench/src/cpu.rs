//! Who used the processors, from `/proc`. On a machine of two cores the generator takes from what it measures: its share is part of
//! the figures.

use std::fs;
use std::process;

use anyhow::{Context, Result, bail};
use serde::Serialize;

/// `USER_HZ`, the unit of `/proc/<pid>/stat`: 100 on every architecture that Linux still supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// What others may use before a measurement means little: two cores have none to spare.
pub(crate) const OTHERS_PERCENT_MAX: f64 = 10.0;

/// Seconds of processor time that were used, by whom.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// We, and pgbench where it has ended.
    pub(crate) generator: f64,
    pub(crate) api: f64,
    /// The postmaster and all its processes.
    pub(crate) postgres: f64,
    /// Everybody on this machine, and what its host gave to other machines.
    busy: f64,
    /// Busy or not: the elapsed time, once for each processor.
    total: f64,
}

/// Processor time of a measurement.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Share {
    /// Microseconds for each completion, as the next two.
    pub(crate) generator_us: f64,
    pub(crate) api_us: f64,
    pub(crate) postgres_us: f64,
    /// Of the whole machine, by whoever has nothing to do with the measurement.
    pub(crate) others_percent: f64,
}

impl Used {
    pub(crate) fn so_far(api: u32, postmaster: u32) -> Result<Self> {
        let stats = all()?;
        let of = |pid| stats.iter().find(|stat| stat.pid == pid).with_context(|| format!("process {pid} is gone"));
        let sessions = stats.iter().filter(|stat| stat.parent == postmaster).map(|stat| stat.own);
        let (ourselves, postmaster) = (of(process::id())?, of(postmaster)?);
        let (busy, total) = machine()?;
        Ok(Self {
            generator: ourselves.own + ourselves.reaped,
            api: of(api)?.own,
            postgres: postmaster.own + postmaster.reaped + sessions.sum::<f64>(),
            busy,
            total,
        })
    }

    pub(crate) fn since(self, before: Self, completions: usize) -> Share {
        let each = |after: f64, before: f64| (after - before) * 1e6 / completions.max(1) as f64;
        let known = |used: Self| used.generator + used.api + used.postgres;
        let others = (self.busy - before.busy) - (known(self) - known(before));
        Share {
            generator_us: each(self.generator, before.generator),
            api_us: each(self.api, before.api),
            postgres_us: each(self.postgres, before.postgres),
            others_percent: (100.0 * others / (self.total - before.total).max(1.0 / TICKS_PER_SECOND)).max(0.0),
        }
    }
}

impl Share {
    pub(crate) fn is_calm(&self) -> bool {
        self.others_percent <= OTHERS_PERCENT_MAX
    }
}

/// Of the last minute: above the number of our own processes, others were at work.
pub(crate) fn load_average() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("reading /proc/loadavg")?;
    text.split_whitespace().next().and_then(|first| first.parse().ok()).context("/proc/loadavg begins with a number")
}

/// Busy and total seconds of all processors together.
fn machine() -> Result<(f64, f64)> {
    let text = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let first = text.lines().next().unwrap_or_default();
    // user nice system idle iowait irq softirq steal; what guests use is in user already.
    let ticks: Vec<f64> = first.split_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    let [_, _, _, idle, iowait, ..] = ticks[..] else { bail!("/proc/stat begins with {first:?}") };
    let total: f64 = ticks.iter().sum();
    Ok(((total - idle - iowait) / TICKS_PER_SECOND, total / TICKS_PER_SECOND))
}

struct Stat {
    pid: u32,
    parent: u32,
    /// Seconds, user and system.
    own: f64,
    /// The same of children that have been waited for.
    reaped: f64,
}

fn all() -> Result<Vec<Stat>> {
    let entries = fs::read_dir("/proc").context("listing /proc")?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(stat).collect())
}

/// None: the process has just ended.
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may itself hold spaces and parentheses.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let seconds = |index: usize| fields.get(index)?.parse::<f64>().ok().map(|ticks| ticks / TICKS_PER_SECOND);
    Some(Stat {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        own: seconds(11)? + seconds(12)?,
        reaped: seconds(13)? + seconds(14)?,
    })
}
