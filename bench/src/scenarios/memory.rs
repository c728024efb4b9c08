//! Resident memory of the API and of a worker that do nothing, and of the API while it holds streams in which nothing happens.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use sqlx::{Connection, PgConnection};

use crate::Plan;
use crate::cpu::Cast;
use crate::follow::Follower;
use crate::product::Process;
use crate::report::{Bound, Findings, Sample, Target};
use crate::stage::Stage;

const STREAMS: usize = 1_000;

/// Numbers of twelve digits: see `sessions.sql`.
const FIRST_SESSION: usize = 300_000_000_000;

/// What a start or a thousand requests need for a moment is given back.
const SETTLE: Duration = Duration::from_secs(3);

const COLUMNS: &[&str] = &["resident MB", "of them anonymous", "added MB"];

const IDLE: &str = "API, idle";
const MANY: &str = "API, 1,000 idle streams of as many sessions";
const ONE: &str = "API, 1,000 idle streams of one session";
const WORKER: &str = "worker, idle";

pub(crate) async fn run(stage: &Stage, url: &str, plan: Plan) -> Result<Findings> {
    drop(Process::api(url, &[]).await?);
    let mut session = PgConnection::connect(url).await?;
    let (first, end) = (FIRST_SESSION as i64, (FIRST_SESSION + STREAMS) as i64);
    sqlx::query(include_str!("../../sql/sessions.sql")).bind(first).bind(end).execute(&mut session).await?;
    let mut samples = Vec::new();
    for round in 1..=plan.rounds {
        for (what, sessions) in [(MANY, STREAMS), (ONE, 1)] {
            samples.extend(measure(stage, url, round, what, sessions).await?);
        }
    }
    let target = |claim: &str, what, figure, most| Target {
        claim: claim.to_owned(),
        bound: Bound::AtMost(most),
        seen: Findings::whatever_the_noise(&samples, what, figure),
    };
    let targets = vec![
        target("API, idle: resident MB", IDLE, COLUMNS[0], 25.0),
        target("API, 1,000 idle streams of as many sessions: added MB", MANY, COLUMNS[2], 20.0),
    ];
    let notes = vec![
        "A fresh API and a fresh worker for each measurement; a MB is 10^6 bytes of VmRSS. Most of what is not anonymous is the executable. The CPU \
         is that of the whole interval, or of opening and holding one stream."
            .to_owned(),
    ];
    Ok(Findings { title: "memory", columns: COLUMNS, samples, targets, notes })
}

/// A fresh API and a fresh worker, and then streams.
async fn measure(stage: &Stage, url: &str, round: u32, what: &str, sessions: usize) -> Result<[Sample; 3]> {
    let (api, worker) = (Process::api(url, &[]).await?, Process::worker(url, &[]).await?);
    let (servers, workers) = ([api.id()], [worker.id()]);
    let cast = Cast { servers: &servers, workers: &workers, postmaster: stage.cluster.pid() };
    let before = cast.used()?;
    tokio::time::sleep(SETTLE).await;
    let [idle, idle_anonymous] = resident_mb(api.id())?;
    let [worker_idle, worker_anonymous] = resident_mb(worker.id())?;
    let used = cast.used()?;
    let mut followers = Vec::new();
    for number in 0..STREAMS {
        let path = format!("/v1/sessions/00000000-0000-7000-8000-{}/events", FIRST_SESSION + number % sessions);
        followers.push(Follower::open(api.address()?, &path).await?);
    }
    tokio::time::sleep(SETTLE).await;
    let [held, held_anonymous] = resident_mb(api.id())?;
    let cpu_held = cast.used()?.since(used).each(STREAMS);
    let cpu_idle = used.since(before).each(1);
    eprintln!("round {round}: API {idle:.1} MB, worker {worker_idle:.1} MB; {what}: {held:.1} MB");
    let figures = [(COLUMNS[0], held), (COLUMNS[1], held_anonymous), (COLUMNS[2], held - idle)];
    Ok([
        Sample::new(round, IDLE, [(COLUMNS[0], idle), (COLUMNS[1], idle_anonymous)], cpu_idle),
        Sample::new(round, WORKER, [(COLUMNS[0], worker_idle), (COLUMNS[1], worker_anonymous)], cpu_idle),
        Sample::new(round, what, figures, cpu_held),
    ])
}

/// All of it, and what is no file's.
fn resident_mb(pid: u32) -> Result<[f64; 2]> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).context("reading the status of a process")?;
    let field = |name: &str| -> Result<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("{name} is missing"))?;
        let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse().with_context(|| format!("{name} is no number"))?;
        Ok(kibibytes * 1024.0 / 1e6)
    };
    Ok([field("VmRSS:")?, field("RssAnon:")?])
}
