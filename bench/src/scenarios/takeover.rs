//! A worker is killed with `kill -9` while it executes a run: until another one has taken the run up. And what the settings that
//! decide it cost while nothing happens.

use std::time::Duration;

use anyhow::{Context, Result};
use hyper::StatusCode;
use sqlx::{Connection, PgConnection};
use tokio::time::Instant;
use uuid::Uuid;

use crate::Plan;
use crate::cpu::Cast;
use crate::follow::Follower;
use crate::load::Client;
use crate::product::Process;
use crate::report::{Bound, Findings, Sample, Target};
use crate::stage::Stage;

const IDLE: Duration = Duration::from_secs(10);

/// A renewal comes so often: the kill may be anywhere between two.
const RENEW_MS: u64 = 3_000;

const COLUMNS: &[&str] = &["s", "% of the processors"];

const TAKEOVER: &str = "Baton, kill -9 to run.resumed on the stream";
const COST: &str = "Postgres, an API and two workers idle";

pub(crate) async fn run(stage: &Stage, url: &str, plan: Plan) -> Result<Findings> {
    let mut session = PgConnection::connect(url).await?;
    let api = Process::api(url, &[]).await?;
    let mut workers = vec![Process::worker(url, &[]).await?, Process::worker(url, &[]).await?];
    let mut client = Client::connect(api.address()?).await?;
    let servers = [api.id()];
    let mut samples = Vec::new();
    for round in 1..=plan.rounds {
        let pids: Vec<u32> = workers.iter().map(Process::id).collect();
        let cast = Cast { servers: &servers, workers: &pids, postmaster: stage.cluster.pid() };
        let before = cast.used()?;
        tokio::time::sleep(IDLE).await;
        let idle = cast.used()?.since(before);
        samples.push(Sample::new(round, COST, [(COLUMNS[1], 100.0 * idle.postgres / idle.total)], idle.each(1)));

        let path = client.create_session().await?;
        let mut follower = Follower::open(api.address()?, &format!("{path}/events")).await?;
        let run_id = client.submit(&path, "wait").await?;
        follower.until_type("run.started").await?;
        tokio::time::sleep(Duration::from_millis(rand::random::<u64>() % RENEW_MS)).await;
        let owner = owner(&mut session, run_id).await?;
        let at = workers.iter().position(|worker| worker.id() == owner).context("somebody else's worker has the run")?;
        let mut killed = workers.swap_remove(at);
        let survivors = [workers[0].id()];
        let cast = Cast { workers: &survivors, ..cast };
        let (before, began) = (cast.used()?, Instant::now());
        killed.kill();
        let (_, resumed) = follower.until_type("run.resumed").await?;
        let seconds = (resumed - began).as_secs_f64();
        eprintln!("round {round}: taken over after {seconds:.2} s");
        samples.push(Sample::new(round, TAKEOVER, [(COLUMNS[0], seconds)], cast.used()?.since(before).each(1)));
        client.post(&format!("/v1/runs/{run_id}/cancel"), "", StatusCode::ACCEPTED).await?;
        follower.until_type("run.cancelled").await?;
        workers.push(Process::worker(url, &[]).await?);
    }
    let targets = vec![
        Target {
            claim: "takeover: s".to_owned(),
            bound: Bound::AtMost(12.0),
            seen: Findings::whatever_the_noise(&samples, TAKEOVER, COLUMNS[0]),
        },
        Target {
            claim: "Postgres while nothing happens: % of the processors".to_owned(),
            bound: Bound::AtMost(1.0),
            seen: Findings::each_round(&samples, COST, COLUMNS[1]),
        },
    ];
    let notes = vec![
        "Default settings: a lease of 10 s, renewed every 3 s, a sweep every second. The kill comes at a random moment between two renewals. \
         The cost is that of everything the processes do while nothing happens: renewals, sweeps, polls."
            .to_owned(),
    ];
    Ok(Findings { title: "takeover", columns: COLUMNS, samples, targets, notes })
}

/// The process that executes a run.
async fn owner(session: &mut PgConnection, run_id: Uuid) -> Result<u32> {
    let pid: i32 = sqlx::query_scalar("SELECT w.pid FROM runs r JOIN workers w ON w.id = r.lease_owner WHERE r.id = $1")
        .bind(run_id)
        .fetch_one(session)
        .await?;
    Ok(pid.cast_unsigned())
}
