//! One run at a time, on a system that has nothing else to do: to its first event and to its end on an open stream, and what it costs
//! in statements.

use std::time::Duration;

use anyhow::Result;
use sqlx::{Connection, PgConnection};
use tokio::time::Instant;

use crate::Plan;
use crate::cpu::Cast;
use crate::follow::Follower;
use crate::limits::pgbench::COMMIT;
use crate::load::Client;
use crate::product::Process;
use crate::report::{Bound, Findings, Sample, Seen, Target};
use crate::samples::percentiles_ms;
use crate::stage::{Stage, checkpoint};

/// Runs of a round.
const RUNS: usize = 200;

/// Between two runs: what the one before has left behind is done.
const PAUSE: Duration = Duration::from_millis(5);

const COLUMNS: &[&str] = &["p50 ms", "p99 ms", "statements", "commits", "NOTIFY statements"];

const FIRST: &str = "Baton, submit to first event";
const DONE: &str = "Baton, submit to completed";
const COST: &str = "Baton, one run";
const IDLE: &str = "idle, for as long as a run";

pub(crate) async fn run(stage: &Stage, url: &str, plan: Plan) -> Result<Findings> {
    let mut session = PgConnection::connect(url).await?;
    // So that the bench's own statements are told apart.
    sqlx::raw_sql("CREATE ROLE product SUPERUSER LOGIN").execute(&mut session).await?;
    let counted = sqlx::raw_sql("CREATE EXTENSION pg_stat_statements").execute(&mut session).await.is_ok();
    let of_product = url.replacen("postgres@", "product@", 1);
    let api = Process::api(&of_product, &[]).await?;
    let worker = Process::worker(&of_product, &[]).await?;
    let pgbench = stage.pgbench(url)?;
    let (servers, workers) = ([api.id()], [worker.id()]);
    let cast = Cast { servers: &servers, workers: &workers, postmaster: stage.cluster.pid() };
    let mut client = Client::connect(api.address()?).await?;
    one_run(&api, &mut client).await?;
    let mut samples = Vec::new();
    for round in 1..=plan.rounds {
        checkpoint(&mut session).await?;
        samples.push(pgbench.commit(round, stage.cluster.pid()).await?);
        let before = cast.used()?;
        let (mut first, mut done) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let run = one_run(&api, &mut client).await?;
            first.push(run.first);
            done.push(run.done);
        }
        let cpu = cast.used()?.since(before).each(RUNS);
        for (what, latencies) in [(FIRST, &first), (DONE, &done)] {
            let [p50, p99] = percentiles_ms(latencies);
            eprintln!("round {round}: {what}: {p50:.2} ms, p99 {p99:.2} ms");
            samples.push(Sample::new(round, what, [(COLUMNS[0], p50), (COLUMNS[1], p99)], cpu));
        }
        if counted {
            samples.extend(cost(round, cast, &mut client, &mut session).await?);
        }
    }
    Ok(Findings { title: "latency and statements", columns: COLUMNS, targets: targets(&samples), samples, notes: notes(counted) })
}

/// What runs cost, one at a time and followed by nobody, which is the dearest: nothing is grouped.
async fn cost(round: u32, cast: Cast<'_>, client: &mut Client, session: &mut PgConnection) -> Result<[Sample; 2]> {
    let mut sessions = Vec::new();
    for _ in 0..RUNS {
        sessions.push(client.create_session().await?);
    }
    let (mut counted, mut used, began) = (vec![counts(session).await?], vec![cast.used()?], Instant::now());
    for path in sessions {
        let run_id = client.submit(&path, "noop").await?;
        while sqlx::query_scalar("SELECT finished_at IS NULL FROM runs WHERE id = $1")
            .bind(run_id)
            .fetch_one(&mut *session)
            .await?
        {
            tokio::time::sleep(PAUSE).await;
        }
    }
    for idle in [Duration::ZERO, began.elapsed()] {
        tokio::time::sleep(idle).await;
        counted.push(counts(session).await?);
        used.push(cast.used()?);
    }
    let each = |interval: usize, kind: usize| (counted[interval + 1][kind] - counted[interval][kind]) as f64 / RUNS as f64;
    let sample = |what, interval: usize, of: &dyn Fn(usize) -> f64| {
        let cpu = used[interval + 1].since(used[interval]).each(RUNS);
        Sample::new(round, what, [(COLUMNS[2], of(0)), (COLUMNS[3], of(1)), (COLUMNS[4], of(2))], cpu)
    };
    Ok([sample(COST, 0, &|kind| each(0, kind) - each(1, kind)), sample(IDLE, 1, &|kind| each(1, kind))])
}

/// Of one run, each from before the submission is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latencies {
    pub(super) answered: Duration,
    first: Duration,
    pub(super) done: Duration,
}

/// A no-op run in a session of its own, followed on a stream that is open before it is submitted.
pub(super) async fn one_run(api: &Process, client: &mut Client) -> Result<Latencies> {
    let path = client.create_session().await?;
    let mut follower = Follower::open(api.address()?, &format!("{path}/events")).await?;
    // The session's own event: the stream is open, and nothing follows in it by itself.
    follower.until(1).await?;
    let sent = Instant::now();
    let submitted = async {
        client.submit(&path, "noop").await?;
        anyhow::Ok(sent.elapsed())
    };
    let (answered, seen) = tokio::join!(submitted, follower.until_type("run.completed"));
    let (first, done) = seen?;
    tokio::time::sleep(PAUSE).await;
    Ok(Latencies { answered: answered?, first: first - sent, done: done - sent })
}

/// Statements, those that wrote, and those that only notify, so far.
type Counts = [i64; 3];

async fn counts(session: &mut PgConnection) -> Result<Counts> {
    let (statements, commits, notifies) = sqlx::query_as(include_str!("../../sql/statements.sql")).fetch_one(session).await?;
    Ok([statements, commits, notifies])
}

fn targets(samples: &[Sample]) -> Vec<Target> {
    let commit = Findings::each_round(samples, COMMIT, COLUMNS[0]);
    // How much of its allowance a latency takes: so many commits and so many milliseconds.
    let of_allowance = |what: &str, commits: f64, ms: f64| -> Vec<Seen> {
        let pairs = Findings::each_round(samples, what, COLUMNS[0]).into_iter().zip(&commit);
        let ratio = |(p50, commit): (Seen, &Seen)| Seen {
            value: p50.value / (commits * commit.value + ms),
            calm: p50.calm && commit.calm,
        };
        pairs.map(ratio).collect()
    };
    let costs = |figure| Findings::whatever_the_noise(samples, COST, figure);
    vec![
        Target {
            claim: "submit to first event: p50 to 2 F + 3 ms".to_owned(),
            bound: Bound::AtMost(1.0),
            seen: of_allowance(FIRST, 2.0, 3.0),
        },
        Target {
            claim: "submit to completed: p50 to 4 F + 4 ms".to_owned(),
            bound: Bound::AtMost(1.0),
            seen: of_allowance(DONE, 4.0, 4.0),
        },
        Target {
            claim: "submit to completed: p99 to p50".to_owned(),
            bound: Bound::AtMost(3.0),
            seen: Findings::ratios(samples, (DONE, COLUMNS[1]), (DONE, COLUMNS[0])),
        },
        Target { claim: "statements of a run".to_owned(), bound: Bound::AtMost(8.0), seen: costs(COLUMNS[2]) },
        // A heartbeat more or less, in two hundred runs.
        Target { claim: "commits of a run".to_owned(), bound: Bound::AtMost(4.05), seen: costs(COLUMNS[3]) },
    ]
}

fn notes(counted: bool) -> Vec<String> {
    let mut notes = vec![format!(
        "{RUNS} runs of a round, one at a time, each in a session of its own whose stream is open before it is submitted. The CPU is that of \
         a whole run with its session and its stream."
    )];
    notes.push(if counted {
        "Statements of all processes by pg_stat_statements, of runs that nobody follows, less those of an idle interval of equal length. A \
         commit is a call that wrote rows. What only notifies is shown and not counted."
            .to_owned()
    } else {
        "This Postgres has no pg_stat_statements: statements were not counted.".to_owned()
    });
    notes
}
