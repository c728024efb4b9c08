//! Everything at once, as in a bad week: four workers, a hundred sessions whose agents use every tool, people who approve, deny,
//! answer and cancel; and somebody who kills workers and APIs with `kill -9` and takes Postgres away.
//!
//! Afterwards: no acknowledged run is lost, no effect has happened twice (counted outside, in the file that
//! `demo.external_write` appends to), no follower missed or repeated an event, and the audit finds nothing.
//! `BATON_CHAOS_SECONDS` says for how long (`just chaos`: five minutes); the summary is in docs/reliability.md.

mod effects;
mod people;

use std::time::Duration;

use baton_core::clock::Clock;
use baton_core::db;
use baton_devdb::databases;
use baton_devdb::testing::TempCluster;
use rand::Rng;
use sqlx::PgPool;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::people::{Session, Spoken};
use crate::support::{Process, RealApp, SHORT_LEASE, eventually, pool};

const SECONDS: u64 = 15;
const SESSIONS: usize = 100;
const WORKERS: usize = 4;

/// Between two blows.
const CALM: std::ops::Range<Duration> = Duration::from_millis(300)..Duration::from_millis(2_500);

/// How long what is under way may take to end, once nobody disturbs it any more.
const DRAIN: Duration = Duration::from_secs(90);

/// Of all blows. The rest hits workers.
const API_PART: f64 = 0.15;
const POSTGRES_PART: f64 = 0.05;

#[derive(Debug, Default)]
struct Blows {
    workers: u32,
    apis: u32,
    restarts: u32,
    crashes: u32,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chaos_loses_no_run_and_repeats_no_effect() {
    let seconds = std::env::var("BATON_CHAOS_SECONDS").map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let mut world = World::start(SESSIONS).await;
    let blows = rage(&mut world.app, &mut world.workers, &mut world.cluster, Duration::from_secs(seconds)).await;
    world.settle(seconds, &blows).await;
}

/// Nothing but Postgres goes away, each time when there is something that could be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_b12_nothing_acknowledged_is_lost_when_postgres_restarts_under_load() {
    const SESSIONS: usize = 40;
    const MORE_EVENTS: i64 = 300;
    let clock = Clock::system();
    let mut world = World::start(SESSIONS).await;
    let mut blows = Blows::default();
    let mut before = 0;
    for blow in [Blows::restart, Blows::crash, Blows::restart, Blows::crash] {
        let events = "SELECT coalesce(sum(last_sequence), 0)::int8 FROM sessions";
        let more = || async {
            let written = sqlx::query_scalar(events).fetch_one(&world.app.pool).await.ok(); // a connection may be of before
            written.filter(|written: &i64| *written > before + MORE_EVENTS)
        };
        before = eventually("there is load", more).await;
        blow(&mut blows, &mut world.cluster);
    }
    world.settle(clock.elapsed().as_secs(), &blows).await;
}

/// Processes, and clients who talk until they are told to stop.
struct World {
    cluster: TempCluster,
    url: String,
    app: RealApp,
    workers: Vec<Process>,
    sessions: JoinSet<Spoken>,
    over: CancellationToken,
}

impl World {
    async fn start(session_count: usize) -> Self {
        let cluster = TempCluster::start().unwrap();
        let url = databases::create_if_missing(&cluster, "baton").await.unwrap();
        let migrating = pool(&url, 1);
        db::apply_migrations(&migrating).await.unwrap();
        migrating.close().await;
        let mut variables = SHORT_LEASE.to_vec();
        variables.push(("BATON_EXECUTION__LEASE_LOSSES_MAX", "1000")); // no run is to blame for these deaths
        let app = RealApp::on(&url, &variables).await;
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            workers.push(app.start_worker().await);
        }
        let (over, mut sessions) = (CancellationToken::new(), JoinSet::new());
        for number in 0..session_count {
            sessions.spawn(Session::new(app.http.clone(), number).talk_until(over.clone()));
        }
        Self { cluster, url, app, workers, sessions, over }
    }

    /// Lets everything come to its end, and looks at what there is.
    async fn settle(mut self, seconds: u64, blows: &Blows) {
        self.over.cancel();
        let drained = tokio::time::timeout(DRAIN, async {
            let mut spoken = Spoken::default();
            while let Some(session) = self.sessions.join_next().await {
                spoken.add(session.unwrap());
            }
            spoken
        });
        let spoken = drained.await.expect("every run ends once nobody disturbs it");

        self.app.pool = pool(&self.url, 4); // the old one has broken connections, which a test does not forgive
        println!("{}", report(&self.app.pool, seconds, &spoken, blows, self.app.effects().len()).await);
        spoken.check(&self.app.pool).await;
        effects::check(&self.app.pool, &self.app.effects()).await;
        drop(self.workers);
        self.app.finish().await;
    }
}

impl Blows {
    fn restart(&mut self, cluster: &mut TempCluster) {
        cluster.restart().unwrap();
        self.restarts += 1;
    }

    fn crash(&mut self, cluster: &mut TempCluster) {
        cluster.kill().unwrap();
        cluster.restart().unwrap();
        self.crashes += 1;
    }
}

/// On the test's own thread, to which the processes and the cluster belong.
async fn rage(app: &mut RealApp, workers: &mut Vec<Process>, cluster: &mut TempCluster, duration: Duration) -> Blows {
    let (clock, mut blows) = (Clock::system(), Blows::default());
    while clock.elapsed() < duration {
        let (calm, blow) = (rand::rng().random_range(CALM), rand::rng().random::<f64>());
        tokio::time::sleep(calm).await; // the pace is what is tested here, not a wait for something
        if blow < POSTGRES_PART {
            let blow = if rand::rng().random() { Blows::restart } else { Blows::crash };
            blow(&mut blows, cluster);
        } else if blow < POSTGRES_PART + API_PART {
            app.kill_api();
            app.restart_api().await;
            blows.apis += 1;
        } else {
            let victim = rand::rng().random_range(0..workers.len());
            workers.swap_remove(victim).kill();
            workers.push(app.start_worker().await);
            blows.workers += 1;
        }
    }
    blows
}

async fn report(pool: &PgPool, seconds: u64, spoken: &Spoken, blows: &Blows, effects: usize) -> String {
    let ends: Vec<(String, i64)> =
        sqlx::query_as("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status").fetch_all(pool).await.unwrap();
    let calls: Vec<(String, i64)> =
        sqlx::query_as("SELECT status, count(*) FROM tool_invocations GROUP BY status ORDER BY status")
            .fetch_all(pool)
            .await
            .unwrap();
    let (sessions, events, losses, decided, answered): (i64, i64, i64, i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM events), (SELECT sum(lease_losses)::int8 FROM runs),
            (SELECT count(*) FROM approvals WHERE status IN ('APPROVED','DENIED')), (SELECT count(*) FROM questions WHERE status = 'ANSWERED')",
    )
    .fetch_one(pool)
    .await
    .unwrap();
    let list =
        |counts: &[(String, i64)]| counts.iter().map(|(what, count)| format!("{what} {count}")).collect::<Vec<_>>().join(", ");
    format!(
        "{seconds} s of chaos: {sessions} sessions, {WORKERS} workers, {events} events\n\
         blows: {} workers and {} APIs killed, Postgres restarted {} times and crashed {} times; {losses} leases lost\n\
         runs: {}\ncalls: {}; {decided} approvals decided, {answered} questions answered\n\
         {effects} effects; streams followed over {} connections",
        blows.workers,
        blows.apis,
        blows.restarts,
        blows.crashes,
        list(&ends),
        list(&calls),
        spoken.connections,
    )
}
