//! A log of 10,000 events read from its beginning, beside `COPY` of the same rows to a client, and beside the same bytes from memory.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::Instant;

use crate::Plan;
use crate::cpu::Cast;
use crate::follow::Follower;
use crate::limits::copy;
use crate::product::Process;
use crate::report::{Bound, Findings, Sample, Target};
use crate::samples::Spread;
use crate::stage::{Stage, checkpoint};
use crate::writer::{EVENTS_BEFORE, Writer};

const EVENTS: usize = 10_000;

const COLUMNS: &[&str] = &["events per s", "ms each"];

const BATON: &str = "Baton, one client";
const COPY: &str = "COPY, one client";
const BARE: &str = "bare axum, one client";

pub(crate) async fn run(stage: &Stage, url: &str, plan: Plan) -> Result<Findings> {
    let api = Process::api(url, &[]).await?;
    let mut writer = Writer::open(url).await?;
    let mut run = writer.begin().await?;
    writer.append(&mut run, EVENTS - EVENTS_BEFORE as usize - 1).await?;
    writer.complete(&mut run).await?;
    sqlx::query("VACUUM ANALYZE").execute(writer.rows()).await?;
    let path = run.events_path();
    let mut frames = Vec::new();
    Follower::open(api.address()?, &path).await?.read_to_end(Some(&mut frames)).await?;
    let file = stage.folder.join("frames-replay");
    fs::write(&file, frames).with_context(|| format!("writing {}", file.display()))?;
    let bare = Process::bare(&file).await?;

    let pids = [api.id(), bare.id()];
    let cast = Cast { servers: &pids, workers: &[], postmaster: stage.cluster.pid() };
    let length = Duration::from_secs(plan.seconds.into()) / 3;
    let mut samples = Vec::new();
    for round in 1..=plan.rounds {
        checkpoint(writer.rows()).await?;
        samples.push(measure(round, BATON, cast, length, async || replay(api.address()?, &path).await).await?);
        let rows = writer.rows();
        samples.push(measure(round, COPY, cast, length, async || copy::log(&mut *rows, run.session_id).await.map(drop)).await?);
        samples.push(measure(round, BARE, cast, length, async || replay(bare.address()?, "/log").await).await?);
    }
    let targets = vec![
        Target {
            claim: "events per s".to_owned(),
            bound: Bound::AtLeast(300_000.0),
            seen: Findings::each_round(&samples, BATON, COLUMNS[0]),
        },
        Target {
            claim: "ratio to COPY".to_owned(),
            bound: Bound::AtLeast(0.5),
            seen: Findings::ratios(&samples, (BATON, COLUMNS[0]), (COPY, COLUMNS[0])),
        },
    ];
    let notes = vec![format!(
        "{EVENTS} events, one replay after the other, each on a new connection; the CPU is that of an event. COPY sends the columns that a \
         replay reads, on one open connection."
    )];
    Ok(Findings { title: "replay", columns: COLUMNS, samples, targets, notes })
}

async fn replay(address: SocketAddr, path: &str) -> Result<()> {
    let last = Follower::open(address, path).await?.read_to_end(None).await?;
    ensure!(last == EVENTS as u64, "a replay ended with event {last}");
    Ok(())
}

/// The same again and again for so long.
async fn measure(
    round: u32,
    what: &str,
    cast: Cast<'_>,
    length: Duration,
    mut read: impl AsyncFnMut() -> Result<()>,
) -> Result<Sample> {
    read().await?;
    let (before, began, mut took) = (cast.used()?, Instant::now(), Vec::new());
    while began.elapsed() < length {
        let sent = Instant::now();
        read().await.with_context(|| what.to_owned())?;
        took.push(1e3 * sent.elapsed().as_secs_f64());
    }
    let events = EVENTS * took.len();
    let rate = events as f64 / began.elapsed().as_secs_f64();
    eprintln!("round {round}: {what}: {rate:.0} per s");
    let cpu = cast.used()?.since(before).each(events);
    Ok(Sample::new(round, what, [(COLUMNS[0], rate), (COLUMNS[1], Spread::of(took).median)], cpu))
}
