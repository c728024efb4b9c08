//! A running run is cancelled: by the hint, and, with notifications off, by the worker's next renewal.

use std::time::Duration;

use anyhow::{Context, Result};
use hyper::StatusCode;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use crate::Plan;
use crate::cpu::Cast;
use crate::follow::Follower;
use crate::limits::pgbench::COMMIT;
use crate::load::Client;
use crate::product::{Process, Setting};
use crate::report::{Bound, Findings, Sample, Seen, Target};
use crate::samples::percentiles_ms;
use crate::stage::{Stage, checkpoint};

const COLUMNS: &[&str] = &["p50 ms", "p99 ms", "settled p50 ms", "settled p99 ms"];

const RENEW_MS: f64 = 3_000.0;

const HINT: Way = Way { what: "Baton, with the hint", settings: &[], runs: 50, pause: Duration::from_millis(40) };
const NO_HINT: Way = Way {
    what: "Baton, notifications off",
    settings: &[("BATON_DATABASE__NOTIFICATIONS", "off")],
    runs: 20,
    // Over two renewals, so that the requests come at every moment between two.
    pause: Duration::from_millis(300),
};

#[derive(Debug, Clone, Copy)]
struct Way {
    what: &'static str,
    settings: &'static [Setting<'static>],
    runs: usize,
    /// Between two requests.
    pause: Duration,
}

pub(crate) async fn run(stage: &Stage, url: &str, plan: Plan) -> Result<Findings> {
    let mut session = PgConnection::connect(url).await?;
    let pgbench = stage.pgbench(url)?;
    let mut samples = Vec::new();
    for round in 1..=plan.rounds {
        checkpoint(&mut session).await?;
        samples.push(pgbench.commit(round, stage.cluster.pid()).await?);
        for way in [HINT, NO_HINT] {
            let sample = measure(stage, url, &mut session, round, way).await.context(way.what)?;
            eprintln!("round {round}: {}: {:.1?}", way.what, sample.figures);
            samples.push(sample);
        }
    }
    let commit = Findings::each_round(&samples, COMMIT, COLUMNS[0]);
    let of_allowance = |what: &str, figure: &str, ms: f64| -> Vec<Seen> {
        let pairs = Findings::each_round(&samples, what, figure).into_iter().zip(&commit);
        pairs
            .map(|(seen, commit)| Seen { value: seen.value / (2.0 * commit.value + ms), calm: seen.calm && commit.calm })
            .collect()
    };
    let targets = vec![
        Target {
            claim: "with the hint: p50 to 2 F + 5 ms".to_owned(),
            bound: Bound::AtMost(1.0),
            seen: of_allowance(HINT.what, COLUMNS[0], 5.0),
        },
        Target {
            claim: "notifications off: settled p99 to a renewal (3 s) + 2 F".to_owned(),
            bound: Bound::AtMost(1.0),
            seen: of_allowance(NO_HINT.what, COLUMNS[3], RENEW_MS),
        },
    ];
    let notes = vec![
        "From before the request is sent until run.cancelled is on the stream; settled is from request to end as the database has them. \
         Without notifications a stream looks for events once a second."
            .to_owned(),
    ];
    Ok(Findings { title: "cancel", columns: COLUMNS, samples, targets, notes })
}

async fn measure(stage: &Stage, url: &str, session: &mut PgConnection, round: u32, way: Way) -> Result<Sample> {
    let (api, worker) = (Process::api(url, way.settings).await?, Process::worker(url, way.settings).await?);
    let mut client = Client::connect(api.address()?).await?;
    let mut running = Vec::new();
    for _ in 0..way.runs {
        let path = client.create_session().await?;
        let follower = Follower::open(api.address()?, &format!("{path}/events")).await?;
        running.push((client.submit(&path, "wait").await?, follower));
    }
    for (_, follower) in &mut running {
        follower.until_type("run.started").await?;
    }
    let (servers, workers) = ([api.id()], [worker.id()]);
    let cast = Cast { servers: &servers, workers: &workers, postmaster: stage.cluster.pid() };
    let before = cast.used()?;
    let (mut cancelled, mut run_ids) = (JoinSet::new(), Vec::<Uuid>::new());
    for (run_id, mut follower) in running {
        tokio::time::sleep(way.pause).await;
        let sent = Instant::now();
        cancelled.spawn(async move {
            let (_, at) = follower.until_type("run.cancelled").await?;
            anyhow::Ok(at - sent)
        });
        client.post(&format!("/v1/runs/{run_id}/cancel"), "", StatusCode::ACCEPTED).await?;
        run_ids.push(run_id);
    }
    let mut seen = Vec::new();
    while let Some(ended) = cancelled.join_next().await {
        seen.push(ended.context("a follower panicked")??);
    }
    let cpu = cast.used()?.since(before).each(way.runs);
    let settled: Vec<f64> =
        sqlx::query_scalar("SELECT extract(epoch FROM finished_at - cancel_requested_at)::float8 FROM runs WHERE id = ANY($1)")
            .bind(run_ids)
            .fetch_all(session)
            .await?;
    let settled: Vec<Duration> = settled.into_iter().map(Duration::from_secs_f64).collect();
    let ([p50, p99], [settled_p50, settled_p99]) = (percentiles_ms(&seen), percentiles_ms(&settled));
    let figures = [(COLUMNS[0], p50), (COLUMNS[1], p99), (COLUMNS[2], settled_p50), (COLUMNS[3], settled_p99)];
    Ok(Sample::new(round, way.what, figures, cpu))
}
