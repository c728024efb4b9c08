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

/// Whose use is told apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cast<'c> {
    /// APIs, or the bare server.
    pub(crate) servers: &'c [u32],
    pub(crate) workers: &'c [u32],
    pub(crate) postmaster: u32,
}

/// Seconds of processor time, by whom.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// We, and pgbench where it has ended.
    client: f64,
    server: f64,
    worker: f64,
    /// The postmaster and all its processes.
    pub(crate) postgres: f64,
    /// Everybody on this machine, and what its host gave to other machines.
    busy: f64,
    /// Busy or not: the elapsed time, once for each processor.
    pub(crate) total: f64,
}

/// Processor time of a measurement.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Share {
    /// Microseconds for each thing done, as the next three.
    pub(crate) client_us: f64,
    pub(crate) server_us: f64,
    pub(crate) worker_us: f64,
    pub(crate) postgres_us: f64,
    /// Of the whole machine, by whoever has nothing to do with the measurement.
    pub(crate) others_percent: f64,
}

impl Cast<'_> {
    /// Since everybody began.
    pub(crate) fn used(self) -> Result<Used> {
        let stats = all()?;
        let of = |pid| stats.iter().find(|stat| stat.pid == pid).with_context(|| format!("process {pid} is gone"));
        let sum = |pids: &[u32]| pids.iter().map(|pid| Ok(of(*pid)?.own)).sum::<Result<f64>>();
        let sessions = stats.iter().filter(|stat| stat.parent == self.postmaster).map(|stat| stat.own);
        let (ourselves, postmaster) = (of(process::id())?, of(self.postmaster)?);
        let (busy, total) = machine()?;
        Ok(Used {
            client: ourselves.own + ourselves.reaped,
            server: sum(self.servers)?,
            worker: sum(self.workers)?,
            postgres: postmaster.own + postmaster.reaped + sessions.sum::<f64>(),
            busy,
            total,
        })
    }
}

impl Used {
    /// What was used between two moments.
    pub(crate) fn since(self, before: Self) -> Self {
        self.with(before, |after, before| after - before)
    }

    /// Of several measurements together.
    pub(crate) fn and(self, other: Self) -> Self {
        self.with(other, |one, other| one + other)
    }

    fn with(self, other: Self, of: fn(f64, f64) -> f64) -> Self {
        Self {
            client: of(self.client, other.client),
            server: of(self.server, other.server),
            worker: of(self.worker, other.worker),
            postgres: of(self.postgres, other.postgres),
            busy: of(self.busy, other.busy),
            total: of(self.total, other.total),
        }
    }

    /// Shared out over the things done meanwhile.
    pub(crate) fn each(self, things: usize) -> Share {
        let each = |seconds: f64| seconds * 1e6 / things.max(1) as f64;
        let others = self.busy - self.client - self.server - self.worker - self.postgres;
        Share {
            client_us: each(self.client),
            server_us: each(self.server),
            worker_us: each(self.worker),
            postgres_us: each(self.postgres),
            others_percent: (100.0 * others / self.total.max(1.0 / TICKS_PER_SECOND)).max(0.0),
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
