//! The same with more of everything: stored runs, and workers. Streams are in `live`.

use anyhow::{Context, Result};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::latency::one_run;
use crate::Plan;
use crate::cpu::Cast;
use crate::load::Client;
use crate::product::Process;
use crate::queue::Queue;
use crate::report::{Bound, Findings, Sample, Target};
use crate::samples::percentiles_ms;
use crate::stage::{Stage, checkpoint};

/// Stored runs. The first stands for none: nothing can be measured without a few.
const STORED: [i64; 3] = [1_000, 100_000, 1_000_000];

/// Runs that are stored in one statement.
const STORED_AT_ONCE: i64 = 100_000;

/// Runs of a measurement, one at a time.
const RUNS: usize = 100;

const WORKERS: [usize; 4] = [1, 2, 4, 8];

/// Runs that so many workers drain.
const QUEUED: u64 = 4_000;

const COLUMNS: &[&str] = &["submit p50 ms", "claim ms", "done p50 ms", "runs per s"];

/// A database with so many stored runs, and the product on it.
struct Grown {
    what: String,
    session: PgConnection,
    api: Process,
    worker: Process,
    /// Claims are counted, where there is `pg_stat_statements`.
    counted: bool,
}

pub(crate) async fn run(stage: &Stage, url: &str, plan: Plan) -> Result<Findings> {
    let mut grown = Vec::new();
    for stored in STORED {
        eprintln!("storing {stored} runs");
        grown.push(Grown::set_up(stage, stored).await?);
    }
    drop(Process::api(url, &[]).await?);
    let mut queue = Queue::open(url).await?;
    let mut samples = Vec::new();
    for round in 1..=plan.rounds {
        for database in &mut grown {
            let sample = database.measure(round, stage.cluster.pid()).await.with_context(|| database.what.clone())?;
            eprintln!("round {round}: {}: {:.2?}", sample.what, sample.figures);
            samples.push(sample);
        }
        for workers in WORKERS {
            let drained = queue.drain(url, stage.cluster.pid(), QUEUED, workers, &[]).await?;
            let rate = QUEUED as f64 / drained.seconds;
            eprintln!("round {round}: {workers} workers: {rate:.0} per s");
            samples.push(Sample::new(round, of_workers(workers), [(COLUMNS[3], rate)], drained.cpu));
        }
    }
    queue.audit().await?;
    drop(grown);
    for stored in STORED {
        stage.drop_database(&name(stored)).await?;
    }
    Ok(Findings { title: "growth", columns: COLUMNS, targets: targets(&samples), samples, notes: notes() })
}

impl Grown {
    async fn set_up(stage: &Stage, stored: i64) -> Result<Self> {
        let url = stage.database(&name(stored)).await?;
        let mut session = PgConnection::connect(&url).await?;
        let counted = sqlx::raw_sql("CREATE EXTENSION pg_stat_statements").execute(&mut session).await.is_ok();
        if counted {
            // The planning of a statement is part of what it costs.
            let setting = format!("ALTER DATABASE {} SET pg_stat_statements.track_planning = on", name(stored));
            sqlx::raw_sql(AssertSqlSafe(setting)).execute(&mut session).await?;
        }
        let api = Process::api(&url, &[]).await?;
        for from in (0..stored).step_by(STORED_AT_ONCE as usize) {
            let to = stored.min(from + STORED_AT_ONCE);
            sqlx::query(include_str!("../../sql/stored.sql")).bind(from).bind(to).execute(&mut session).await?;
        }
        sqlx::query("VACUUM ANALYZE").execute(&mut session).await?;
        checkpoint(&mut session).await?;
        let worker = Process::worker(&url, &[]).await?;
        Ok(Self { what: of_stored(stored), session, api, worker, counted })
    }

    async fn measure(&mut self, round: u32, postmaster: u32) -> Result<Sample> {
        let (servers, workers) = ([self.api.id()], [self.worker.id()]);
        let cast = Cast { servers: &servers, workers: &workers, postmaster };
        let mut client = Client::connect(self.api.address()?).await?;
        let claims = self.claims().await?;
        let before = cast.used()?;
        let (mut answered, mut done) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let run = one_run(&self.api, &mut client).await?;
            answered.push(run.answered);
            done.push(run.done);
        }
        let cpu = cast.used()?.since(before).each(RUNS);
        let ([submit, _], [done, _]) = (percentiles_ms(&answered), percentiles_ms(&done));
        let mut figures = vec![(COLUMNS[0], submit), (COLUMNS[2], done)];
        if let Some((before, after)) = claims.zip(self.claims().await?) {
            figures.push((COLUMNS[1], (after.1 - before.1) / (after.0 - before.0) as f64));
        }
        Ok(Sample::new(round, self.what.clone(), figures, cpu))
    }

    /// How many, and their milliseconds.
    async fn claims(&mut self) -> Result<Option<(i64, f64)>> {
        if !self.counted {
            return Ok(None);
        }
        Ok(Some(sqlx::query_as(include_str!("../../sql/claims.sql")).fetch_one(&mut self.session).await?))
    }
}

fn name(stored: i64) -> String {
    format!("growth_{stored}")
}

fn of_stored(stored: i64) -> String {
    format!("Baton, {stored} stored runs")
}

fn of_workers(workers: usize) -> String {
    format!("Baton, {workers} workers drain {QUEUED} runs")
}

fn targets(samples: &[Sample]) -> Vec<Target> {
    let [few, .., most] = STORED.map(of_stored);
    let ratio = |claim: &str, figure| Target {
        claim: format!("{claim} at 10^6 stored runs to that at 10^3"),
        bound: Bound::AtMost(1.3),
        seen: Findings::ratios(samples, (&most, figure), (&few, figure)),
    };
    vec![ratio("submit", COLUMNS[0]), ratio("claim", COLUMNS[1]), ratio("done", COLUMNS[2])]
}

fn notes() -> Vec<String> {
    vec![format!(
        "Stored runs are completed no-op runs, filled in by SQL: ten in a session, eight events and a key each. {RUNS} runs one at a time on \
         each database in each round; a claim is the mean of the statement by pg_stat_statements, planning and empty claims included. \
         Workers have default slots and one queue."
    )]
}
