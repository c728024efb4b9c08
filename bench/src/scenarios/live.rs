//! Events that reach open streams as they are written, beside a bare server that writes the same bytes from memory.

use std::fs;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use hyper::StatusCode;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Plan;
use crate::cpu::{Cast, Used};
use crate::follow::Follower;
use crate::load::Client;
use crate::product::Process;
use crate::report::{Bound, Findings, Sample, Target};
use crate::stage::{Stage, checkpoint};
use crate::writer::{EVENTS_BEFORE, Writer};

const COLUMNS: &[&str] = &["deliveries per s", "with the writing", "written in ms", "last delivery after ms"];

const BATON: &str = "Baton";
const FRAMES: &str = "bare axum, frame by frame";
const CHUNKS: &str = "bare axum, chunks of 64 KiB";

/// So many events to so many streams.
#[derive(Debug, Clone, Copy)]
struct Load {
    streams: usize,
    events: usize,
    /// Statements that write them.
    statements: usize,
    /// Times in a round: a short one is measured several times, or the unit of processor time is too coarse for it.
    times: usize,
    /// Deliveries for each second.
    target: Option<f64>,
}

const LOADS: [Load; 3] = [
    // In one statement: the commits of several would be most of the time.
    Load { streams: 1, events: 10_000, statements: 1, times: 10, target: Some(100_000.0) },
    Load { streams: 200, events: 1_000, statements: 10, times: 3, target: Some(300_000.0) },
    Load { streams: 2_000, events: 100, statements: 10, times: 2, target: None },
];

impl Load {
    fn what(self, who: &str) -> String {
        format!("{who}, {} events to {} streams", self.events, self.streams)
    }

    fn deliveries(self) -> usize {
        self.streams * self.events
    }
}

/// One delivery of everything to everybody.
struct Delivered {
    used: Used,
    began: Instant,
    /// When there was something to deliver: the first commit was answered.
    first: Instant,
    written: Instant,
    last: Instant,
}

pub(crate) async fn run(stage: &Stage, url: &str, plan: Plan) -> Result<Findings> {
    let api = Process::api(url, &[]).await?;
    let mut writer = Writer::open(url).await?;
    let mut bare_servers = Vec::new();
    for load in LOADS {
        bare_servers.push(Process::bare(&prepare(stage, &mut writer, api.address()?, load.events).await?).await?);
    }
    let mut samples = Vec::new();
    for round in 1..=plan.rounds {
        checkpoint(writer.rows()).await?;
        for (load, bare) in LOADS.iter().zip(&bare_servers) {
            let cast = |server| Cast { servers: server, workers: &[], postmaster: stage.cluster.pid() };
            let (ours, theirs) = ([api.id()], [bare.id()]);
            let mut delivered = Vec::new();
            for _ in 0..load.times {
                delivered.push(of_baton(cast(&ours), api.address()?, &mut writer, *load).await?);
            }
            samples.push(sample(round, BATON, *load, &delivered));
            for (who, path) in [(FRAMES, "/live/frames"), (CHUNKS, "/live/chunks")] {
                delivered.clear();
                for _ in 0..load.times {
                    delivered.push(of_bare(cast(&theirs), bare.address()?, path, *load).await?);
                }
                samples.push(sample(round, who, *load, &delivered));
            }
        }
    }
    Ok(Findings { title: "live", columns: COLUMNS, targets: targets(&samples), samples, notes: notes() })
}

/// The bytes that the bare server will write: a log's frames, as the product has them.
async fn prepare(stage: &Stage, writer: &mut Writer, api: SocketAddr, events: usize) -> Result<std::path::PathBuf> {
    let mut run = writer.begin().await?;
    writer.append(&mut run, events).await?;
    writer.complete(&mut run).await?;
    let (mut follower, mut frames) = (Follower::open(api, &run.events_path()).await?, Vec::new());
    follower.read_to_end(Some(&mut frames)).await?;
    let file = stage.folder.join(format!("frames-{events}"));
    fs::write(&file, frames).with_context(|| format!("writing {}", file.display()))?;
    Ok(file)
}

async fn of_baton(cast: Cast<'_>, api: SocketAddr, writer: &mut Writer, load: Load) -> Result<Delivered> {
    let mut run = writer.begin().await?;
    let mut followers = open(api, &run.events_path(), load.streams).await?;
    for follower in &mut followers {
        follower.until(EVENTS_BEFORE).await?;
    }
    let before = cast.used()?;
    let last = everybody(followers, EVENTS_BEFORE + load.events as u64);
    let (began, mut first, mut written) = (Instant::now(), None, Instant::now());
    for _ in 0..load.statements {
        written = writer.append(&mut run, load.events / load.statements).await?;
        first.get_or_insert(written);
    }
    let last = last.await?;
    let used = cast.used()?.since(before);
    writer.complete(&mut run).await?;
    Ok(Delivered { used, began, first: first.unwrap_or(began), written, last })
}

async fn of_bare(cast: Cast<'_>, bare: SocketAddr, path: &str, load: Load) -> Result<Delivered> {
    let followers = open(bare, path, load.streams).await?;
    let mut client = Client::connect(bare).await?;
    let before = cast.used()?;
    let last = everybody(followers, EVENTS_BEFORE + load.events as u64);
    let began = Instant::now();
    client.post("/start", "", StatusCode::OK).await?;
    let last = last.await?;
    let used = cast.used()?.since(before);
    Ok(Delivered { used, began, first: began, written: began, last })
}

async fn open(address: SocketAddr, path: &str, streams: usize) -> Result<Vec<Follower>> {
    let mut followers = Vec::with_capacity(streams);
    for _ in 0..streams {
        followers.push(Follower::open(address, path).await?);
    }
    Ok(followers)
}

/// When the last of them had the event. They read from now on.
fn everybody(followers: Vec<Follower>, sequence: u64) -> impl Future<Output = Result<Instant>> {
    let mut reading = JoinSet::new();
    for mut follower in followers {
        // What is read to the end is closed after everybody has read: closing is not part of it.
        reading.spawn(async move { follower.until(sequence).await.map(|at| (at, follower)) });
    }
    async move {
        let (mut last, mut done) = (Instant::now(), Vec::new());
        while let Some(read) = reading.join_next().await {
            let (at, follower) = read.context("a follower panicked")??;
            last = last.max(at);
            done.push(follower);
        }
        Ok(last)
    }
}

fn sample(round: u32, who: &str, load: Load, delivered: &[Delivered]) -> Sample {
    let seconds = |from: fn(&Delivered) -> Instant, to: fn(&Delivered) -> Instant| -> f64 {
        delivered.iter().map(|one| (to(one) - from(one)).as_secs_f64()).sum::<f64>() / delivered.len() as f64
    };
    let used = delivered.iter().map(|one| one.used).fold(Used::default(), Used::and);
    let deliveries = load.deliveries() as f64;
    let figures = [
        ("deliveries per s", deliveries / seconds(|one| one.first, |one| one.last)),
        ("with the writing", deliveries / seconds(|one| one.began, |one| one.last)),
        ("written in ms", 1e3 * seconds(|one| one.began, |one| one.written)),
        ("last delivery after ms", 1e3 * seconds(|one| one.began, |one| one.last)),
    ];
    eprintln!("round {round}: {}: {:.0} per s", load.what(who), figures[0].1);
    Sample::new(round, load.what(who), figures, used.each(load.deliveries() * delivered.len()))
}

fn targets(samples: &[Sample]) -> Vec<Target> {
    let mut targets = Vec::new();
    for load in LOADS {
        let (ours, rate) = (load.what(BATON), COLUMNS[0]);
        targets.extend(load.target.map(|least| Target {
            claim: format!("{} events to {} streams: deliveries per s", load.events, load.streams),
            bound: Bound::AtLeast(least),
            seen: Findings::each_round(samples, &ours, rate),
        }));
        targets.extend([FRAMES, CHUNKS].map(|bare| Target {
            claim: format!("{} events to {} streams: ratio to {bare}", load.events, load.streams),
            bound: Bound::AtLeast(0.5),
            seen: Findings::ratios(samples, (&ours, rate), (&load.what(bare), rate)),
        }));
    }
    targets
}

fn notes() -> Vec<String> {
    vec![
        "The events are written by SQL, one run, as the journal's statement writes them, in 1 statement for one stream and in 10 otherwise, \
         each followed by its wake-up. Deliveries are counted from the answer to the first commit; in the second column from its beginning. \
         The bare server has the same bytes in memory, as frames or in chunks of 64 KiB, as much as Baton hands to a socket at once, and begins \
         when it is told to."
            .to_owned(),
    ]
}
