//! Queued no-op runs until there are none, by one worker process, beside pgbench that claims and finishes the same.

use anyhow::{Context, Result};

use crate::Plan;
use crate::cpu::Cast;
use crate::limits::pgbench::{Extent, Pgbench};
use crate::product::{Process, Setting};
use crate::queue::Queue;
use crate::report::{Bound, Findings, Sample, Seen, Target};
use crate::stage::Stage;

const RUNS: u64 = 10_000;

const COLUMNS: &[&str] = &["runs per s", "s", "p50 ms"];

/// Runs of a transaction, and clients that do nothing else: so many that they share commits.
const CEILINGS: [(u64, u16); 3] = [(1, 16), (10, 8), (100, 4)];

const DEFAULT: &str = "Baton, 1 worker, default slots (72 for this class)";
const MANY: &str = "Baton, 1 worker, 1,000 slots for this class";
const MANY_SLOTS: &[Setting<'_>] = &[("BATON_WORKER__SLOTS__INTERACTIVE", "976")];

pub(crate) async fn run(stage: &Stage, url: &str, plan: Plan) -> Result<Findings> {
    // Agents are stored by the first process that has them.
    drop(Process::api(url, &[]).await?);
    let mut queue = Queue::open(url).await?;
    let pgbench = stage.pgbench(url)?;
    let postmaster = stage.cluster.pid();
    let mut samples = Vec::new();
    for round in 1..=plan.rounds {
        samples.push(pgbench.commit(round, postmaster).await?);
        for (batch, clients) in CEILINGS {
            queue.fill(RUNS).await?;
            samples.push(ceiling(&pgbench, postmaster, round, batch, clients).await?);
        }
        for (what, settings) in [(DEFAULT, [].as_slice()), (MANY, MANY_SLOTS)] {
            let drained = queue.drain(url, postmaster, RUNS, 1, settings).await.context(what)?;
            let rate = RUNS as f64 / drained.seconds;
            samples.push(Sample::new(round, what, [(COLUMNS[0], rate), (COLUMNS[1], drained.seconds)], drained.cpu));
        }
        let rates = samples.iter().filter(|sample| sample.round == round);
        rates.for_each(|sample| eprintln!("round {round}: {}: {:.0?}", sample.what, sample.figures));
    }
    queue.audit().await?;
    Ok(Findings { title: "drain", columns: COLUMNS, targets: targets(&samples), samples, notes: notes() })
}

fn ceiling_name(batch: u64, clients: u16) -> String {
    format!("pgbench, claim and finish {batch} at a time, {clients} clients")
}

async fn ceiling(pgbench: &Pgbench, postmaster: u32, round: u32, batch: u64, clients: u16) -> Result<Sample> {
    let what = ceiling_name(batch, clients);
    let cast = Cast { servers: &[], workers: &[], postmaster };
    let before = cast.used()?;
    let turns = RUNS / (batch * u64::from(clients));
    let script = include_str!("../../sql/drain.sql");
    let ran = pgbench.run(script, clients, Extent::Turns(turns), &[("batch", batch.to_string())]).await.context(what.clone())?;
    let cpu = cast.used()?.since(before).each(RUNS as usize);
    let last = ran.completions.iter().map(|completion| completion.at).max().context("pgbench did nothing")?;
    let seconds = last as f64 / 1e6;
    Ok(Sample::new(round, what, [(COLUMNS[0], RUNS as f64 / seconds), (COLUMNS[1], seconds)], cpu))
}

fn targets(samples: &[Sample]) -> Vec<Target> {
    let rates = |what: &str| Findings::each_round(samples, what, COLUMNS[0]);
    let ceilings: Vec<Vec<Seen>> = CEILINGS.iter().map(|&(batch, clients)| rates(&ceiling_name(batch, clients))).collect();
    // The best of its round.
    let ratios = |what: &str| {
        let best = |round: usize| ceilings.iter().map(|ceiling| ceiling[round]).max_by(|a, b| a.value.total_cmp(&b.value));
        let pairs = rates(what).into_iter().enumerate().filter_map(|(round, ours)| Some((ours, best(round)?)));
        pairs.map(|(ours, best)| Seen { value: ours.value / best.value, calm: ours.calm && best.calm }).collect()
    };
    vec![
        Target { claim: "default slots: runs per s".to_owned(), bound: Bound::AtLeast(3_000.0), seen: rates(DEFAULT) },
        Target { claim: "1,000 slots: runs per s".to_owned(), bound: Bound::AtLeast(3_000.0), seen: rates(MANY) },
        Target {
            claim: "default slots: ratio to the best ceiling".to_owned(),
            bound: Bound::AtLeast(0.6),
            seen: ratios(DEFAULT),
        },
        Target { claim: "1,000 slots: ratio to the best ceiling".to_owned(), bound: Bound::AtLeast(0.6), seen: ratios(MANY) },
    ]
}

fn notes() -> Vec<String> {
    vec![format!(
        "{RUNS} runs, queued by SQL in one transaction while the worker is idle, 8 events each. Its time is from the beginning of its first \
         claim to the beginning of the statement that ends the last run. pgbench claims and finishes a batch in two statements; Baton reads each log \
         and commits a step in between. Not compared: Restate."
    )]
}
