//! All writers against each other, while backends are killed, answers are lost, statements are rolled back as they commit,
//! and workers pause and crash. What was acknowledged is remembered, and looked up in the end.
//!
//! `BATON_TORTURE_SECONDS` says for how long; `BATON_TORTURE_SEED` repeats the choices of a run, though not its schedule.

mod answers;
mod calls;
mod clients;
mod disturbance;
mod facts;
mod log;
mod marker;
mod people;
mod plan;
mod wire;
mod worker;
mod world;

use std::sync::Arc;
use std::time::Duration;

use baton_core::Services;
use baton_core::agents::Catalogue;
use baton_core::config::{self, Config, Idempotency, Notifications, Sessions};
use baton_core::db::{self, Role};
use baton_core::fault::Faults;
use baton_core::models::Policies;
use baton_core::policy::Profiles;
use rand::Rng;
use sqlx::PgPool;
use tokio::task::JoinSet;

use self::wire::LossyWire;
use self::worker::TortureWorker;
use self::world::{Stage, World};
use crate::support::{TestDatabase, audit, eventually, violations};

const DURATION: Duration = Duration::from_secs(10);

/// How long the rest may take to end. The longest part is the wait before a run that was lost twice is due again.
const DRAIN: Duration = Duration::from_secs(30);

const SUBMITTERS: usize = 8;
const CANCELLERS: usize = 3;
const APPROVERS: usize = 3;
const ANSWERERS: usize = 2;
const WORKERS: usize = 5;
const SWEEPERS: usize = 2;

/// What must have happened, or the test has tested less than it says.
const SEEN: &[&str] = &[
    "answers lost",
    "answers in conflict",
    "answers too late",
    "approvals APPROVED",
    "approvals DENIED",
    "approvals EXPIRED",
    "backends killed",
    "busy",
    "calls CANCELLED",
    "calls UNCERTAIN",
    "cancelled",
    "claimed",
    "completed",
    "crashes",
    "decisions after expiry",
    "decisions in conflict",
    "fenced",
    "handed back",
    "keys reused",
    "models' calls held",
    "models' calls reported",
    "pauses",
    "questions ANSWERED",
    "released",
    "replayed",
    "requests lost",
    "requeued by sweep",
    "submitted",
    "suspended",
    "suspensions refused",
    "workers marked dead",
    "writes after release",
    "written",
];

/// The same, where the torture lasts: in a few seconds chance may pass each of them by.
const SEEN_IN_TIME: &[&str] = &[
    "decisions after the end",
    "approvals CANCELLED",
    "calls settled after a loss",
    "messages with keys that were answers",
    "questions CANCELLED",
    "questions EXPIRED",
];

/// From here on it lasts.
const LONG: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn gate_c10_all_pairs_of_writers_without_deadlock_or_lost_write() {
    let seed = setting("BATON_TORTURE_SEED").unwrap_or_else(|| rand::rng().random());
    let duration = setting("BATON_TORTURE_SECONDS").map_or(DURATION, Duration::from_secs);
    let database = TestDatabase::create().await;
    sqlx::raw_sql(WINDOWS).execute(&database.pool).await.unwrap();
    let world = Arc::new(World::new(seed));
    let wire = LossyWire::open(&world, &database.url);
    let actors = start(&world, &database, &wire).await;

    tokio::time::sleep(duration).await;
    world.enter(Stage::Drain);
    end(&world, actors.clients).await;
    let stuck = drain(&world, &database.pool).await;
    world.enter(Stage::Over);
    end(&world, actors.executors).await;
    for pool in actors.pools {
        pool.close().await;
    }

    count_outcomes(&world, &database.pool).await;
    let report = report(&world, &database.pool, seed).await;
    println!("{report}");
    let mut wrong = world.take_wrong();
    if stuck > 0 {
        wrong.push(format!("{stuck} runs are stuck"));
    }
    let deadlocks = deadlocks(&database.pool).await;
    if deadlocks > 0 {
        wrong.push(format!("{deadlocks} deadlocks"));
    }
    let rare = if duration < LONG { &[] } else { SEEN_IN_TIME };
    wrong.extend(SEEN.iter().chain(rare).filter(|what| world.counted(what) == 0).map(|what| format!("never seen: {what}")));
    wrong.extend(log::check(&database.pool, &world.facts()).await);
    wrong.extend(violations(&database.pool).await);
    let shown = &wrong[..wrong.len().min(20)];
    assert!(wrong.is_empty(), "{report}\nfound {} wrong:\n{}", wrong.len(), shown.join("\n"));
    audit(&database.pool).await;
    database.remove().await;
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

/// Windows for others to come in: between the lock of a session and the insertion of its run, and before a commit, with every
/// lock held, longest where a single run is held. Some transactions then do not commit. Deadlocks are found before a statement
/// could time out.
///
/// There is no trigger before the UPDATE of a row: it would lock the row itself, and hide what the statements do without it.
const WINDOWS: &str = "
    DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = %L', current_database(), '100ms'); END $$;

    CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF random() < TG_ARGV[0]::float8 THEN PERFORM pg_sleep(random() ^ 3 * TG_ARGV[1]::float8); END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER dawdle_holding_session BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION dawdle('0.2', '0.02');
    CREATE TRIGGER dawdle_before_key BEFORE INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION dawdle('0.4', '0.04');
    CREATE CONSTRAINT TRIGGER dawdle_at_commit AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION dawdle('0.02', '0.1');
    CREATE CONSTRAINT TRIGGER dawdle_holding_run AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.type IN ('run.cancel_requested', 'run.waiting_for_approval', 'run.waiting_for_user')) EXECUTE FUNCTION dawdle('0.7', '0.1');

    CREATE FUNCTION roll_back() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF random() < 0.002 THEN RAISE EXCEPTION 'rolled back by torture' USING ERRCODE = '57P01'; END IF;
        IF random() < 0.002 THEN RAISE EXCEPTION 'rolled back by torture' USING ERRCODE = '40001'; END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER roll_back AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION roll_back();
";

#[derive(Debug, Default)]
struct Actors {
    /// They end when the torture does.
    clients: JoinSet<()>,
    /// They end when everything is over.
    executors: JoinSet<()>,
    /// Of what plays the product.
    pools: Vec<PgPool>,
}

async fn start(world: &Arc<World>, database: &TestDatabase, wire: &LossyWire) -> Actors {
    let product = |pool| config::Database {
        url: Some(wire.url().to_owned()),
        pool,
        notifications: Notifications::Off,
        ..config::Database::default()
    };
    let Actors { mut clients, mut executors, mut pools } = Actors::default();
    let mut open = |connections, role| {
        let pool = db::connect(&product(connections), role).unwrap();
        pools.push(pool.clone());
        pool
    };

    let profiles = Profiles::load(None).unwrap();
    let catalogue = Catalogue::load(&database.pool, &config::Agents::default(), &profiles, &Policies::default()).await.unwrap();
    // Processes of the API: one whose keys last, one whose keys expire under the eyes of their users, and one that takes no
    // message for an answer.
    let day = Idempotency::default().ttl;
    let apis = [(day, true), (Duration::from_millis(500), true), (day, false)].map(|(ttl, route_input)| {
        let (idempotency, sessions) = (Idempotency { ttl }, Sessions { route_input });
        let config = Config { database: product(8), idempotency, sessions, ..Config::default() };
        Services::open(&config, Role::Api, open(8, Role::Api), world.clock().clone(), catalogue.clone(), Faults::default())
            .unwrap()
    });
    let [lasting, brief, unrouted] = apis;
    world.seat(&lasting).await;
    for number in 0..SUBMITTERS {
        let (api, lifetime) = match number % 8 {
            0 => (&brief, clients::Keys::Brief),
            1..4 => (&lasting, clients::Keys::Lasting),
            _ => (&unrouted, clients::Keys::Lasting),
        };
        clients.spawn(clients::submit_for_ever(Arc::clone(world), api.clone(), lifetime));
    }
    for _ in 0..CANCELLERS {
        clients.spawn(clients::cancel_for_ever(Arc::clone(world), lasting.clone()));
    }
    clients.spawn(clients::create_for_ever(Arc::clone(world), lasting.clone()));
    for _ in 0..APPROVERS {
        executors.spawn(people::decide_for_ever(Arc::clone(world), lasting.clone(), database.pool.clone()));
    }
    for _ in 0..ANSWERERS {
        executors.spawn(people::answer_for_ever(Arc::clone(world), lasting.clone(), database.pool.clone()));
    }
    for _ in 0..WORKERS {
        let renewals = db::options(&product(1), Role::Worker).unwrap();
        let worker = TortureWorker::new(world, open(4, Role::Worker), renewals, database.pool.clone(), lasting.clone());
        executors.spawn(worker.run());
    }
    for _ in 0..SWEEPERS {
        executors.spawn(disturbance::sweep_for_ever(Arc::clone(world), open(2, Role::Worker)));
    }
    clients.spawn(disturbance::kill_for_ever(Arc::clone(world), database.pool.clone()));
    executors.spawn(disturbance::watch_for_ever(Arc::clone(world), database.pool.clone()));
    Actors { clients, executors, pools }
}

/// What became of what hangs on runs, by status; and of messages for runs that waited.
async fn count_outcomes(world: &World, pool: &PgPool) {
    let counts: Vec<(String, i64)> = sqlx::query_as(
        "SELECT 'approvals ' || status, count(*) FROM approvals GROUP BY status
         UNION ALL SELECT 'questions ' || status, count(*) FROM questions GROUP BY status
         UNION ALL SELECT 'calls ' || status, count(*) FROM tool_invocations GROUP BY status
         UNION ALL SELECT 'models'' calls ' || cost_source, count(*) FROM model_calls GROUP BY cost_source
         UNION ALL SELECT 'messages with keys that were answers', count(*) FROM idempotency_keys k JOIN runs r ON r.id = k.run_id
            WHERE k.created_at > r.created_at",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    for (what, count) in counts {
        world.count_by(&what, count.unsigned_abs());
    }
}

async fn end(world: &World, mut actors: JoinSet<()>) {
    while let Some(ended) = actors.join_next().await {
        if let Err(panic) = ended {
            world.wrong(format!("an actor has panicked: {panic}"));
        }
    }
}

/// Waits until every run has ended. How many have not.
async fn drain(world: &World, pool: &PgPool) -> i64 {
    let begun = world.clock().elapsed();
    loop {
        let unfinished: i64 =
            sqlx::query_scalar("SELECT count(*) FROM runs WHERE finished_at IS NULL").fetch_one(pool).await.unwrap();
        if unfinished == 0 || world.clock().elapsed() - begun > DRAIN {
            world.count_by("milliseconds to drain", u64::try_from((world.clock().elapsed() - begun).as_millis()).unwrap());
            return unfinished;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Backends report when they end: theirs are gone before this looks.
async fn deadlocks(pool: &PgPool) -> i64 {
    eventually("the backends of the product to end", || async {
        let left: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'baton %'",
        )
        .fetch_one(pool)
        .await
        .unwrap();
        (left == 0).then_some(())
    })
    .await;
    sqlx::query_scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetch_one(pool).await.unwrap()
}

async fn report(world: &World, pool: &PgPool, seed: u64) -> String {
    let ends: Vec<(String, i64)> =
        sqlx::query_as("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status").fetch_all(pool).await.unwrap();
    let (sessions, events): (i64, i64) =
        sqlx::query_as("SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM events)").fetch_one(pool).await.unwrap();
    // Rows of one transaction carry its number.
    let batch: Option<i64> = sqlx::query_scalar(
        "SELECT max(runs) FROM (SELECT count(DISTINCT run_id) AS runs FROM events WHERE type = 'model.request.started' GROUP BY xmin::text) batches",
    )
    .fetch_one(pool)
    .await
    .unwrap();
    let ends: Vec<String> = ends.iter().map(|(status, count)| format!("{status} {count}")).collect();
    let batch = batch.unwrap_or_default();
    format!(
        "seed {seed}: {sessions} sessions, {events} events, largest batch {batch} runs; runs: {}\n{}",
        ends.join(", "),
        world.counts()
    )
}
