//! The queue under those who take from it, cancel in it and lose what they took: each run is executed by one at a time, ends
//! once, and costs its claim the same whatever else the table holds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_core::config::{Notifications, Slots};
use baton_core::execution::{Queue, Room};
use baton_core::fault::Faults;
use baton_core::notify::Notifier;
use baton_core::runs::{RunStatus, SubmitMessage};
use baton_core::sessions::CreateSession;
use baton_core::{Principal, Scope};
use baton_worker::Worker;
use futures::future::join_all;
use serde_json::json;
use sqlx::PgPool;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::events_wire::Working;
use crate::support::{TestApp, eventually, pool};

const ROUNDS: u64 = 100;

/// A run in a session of its own, without the way over HTTP.
async fn submit(app: &TestApp, principal: &Principal, text: &str) -> Uuid {
    let session = CreateSession { agent_id: "test".into(), metadata: serde_json::Map::new() };
    let session_id = app.services.sessions.create(principal, None, session).await.unwrap().session.id;
    app.services.runs.submit(principal, session_id, None, SubmitMessage::text(text)).await.unwrap().run_id
}

async fn worker_id(app: &TestApp) -> Uuid {
    sqlx::query_scalar("SELECT id FROM workers WHERE NOT dead").fetch_one(&app.pool).await.unwrap()
}

/// Whoever claimed is gone, and what it owned is executed by another.
async fn take_over(app: &TestApp) {
    app.expire_workers().await;
    app.worker.renew().await.unwrap(); // begins anew
    app.worker.sweep().await.unwrap();
    app.work().await;
}

fn tick(worker: &Worker) -> JoinHandle<usize> {
    let worker = worker.clone();
    tokio::spawn(async move { worker.tick().await.unwrap() })
}

async fn is_asked(app: &TestApp, run_id: Uuid, steps: i32) {
    eventually("the model is asked", || async {
        let asked = sqlx::query_scalar::<_, i32>("SELECT model_calls FROM runs WHERE id = $1").bind(run_id);
        (asked.fetch_one(&app.pool).await.unwrap() == steps).then_some(())
    })
    .await;
}

/// Events of this kind, of all runs and of each.
async fn count(pool: &PgPool, types: &[&str]) -> BTreeMap<Uuid, i64> {
    let query = "SELECT run_id, count(*) FROM events WHERE type = ANY($1) AND run_id IS NOT NULL GROUP BY run_id";
    let rows: Vec<(Uuid, i64)> = sqlx::query_as(query).bind(types).fetch_all(pool).await.unwrap();
    rows.into_iter().collect()
}

const ENDS: &[&str] = &["run.completed", "run.failed", "run.cancelled"];

#[tokio::test]
async fn case_b7_six_deploys_cost_a_run_nothing() {
    let app = TestApp::start().await;
    let run_id = submit(&app, &Principal::dev(), "pause").await;
    for restarts in 1..=6 {
        let worker =
            app.another_worker_with(Faults::default(), &[], |config| config.worker.drain = Duration::from_millis(20)).await;
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(worker.run(shutdown.clone()));
        is_asked(&app, run_id, restarts).await;
        shutdown.cancel();
        running.await.unwrap().unwrap();
        assert_eq!(app.http.run(run_id).await["status"], "QUEUED");
    }
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    let counters: (i32, i32) = sqlx::query_as("SELECT lease_epoch, lease_losses FROM runs WHERE id = $1")
        .bind(run_id)
        .fetch_one(&app.pool)
        .await
        .unwrap();
    assert_eq!(counters, (7, 0));
    app.finish().await;
}

#[tokio::test]
async fn case_b11_a_claim_leaves_its_worker_the_lease_that_it_had() {
    let app = TestApp::start().await;
    for _ in 0..3 {
        app.http.start_run("noop").await;
    }
    app.work().await;
    let remaining: f64 = sqlx::query_scalar("SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM workers")
        .fetch_one(&app.pool)
        .await
        .unwrap();
    // Nothing is stamped in a transaction that has been open for a while: each renewal and claim is one statement.
    assert!(remaining > app.config.worker.lease.as_secs_f64() - 1.0, "{remaining} s");
    app.finish().await;
}

#[tokio::test]
async fn case_b13_a_renewal_touches_no_index() {
    let app = TestApp::start().await;
    let indexed: Vec<String> = sqlx::query_scalar(
        "SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
         WHERE i.indrelid = 'workers'::regclass",
    )
    .fetch_all(&app.pool)
    .await
    .unwrap();
    assert_eq!(indexed, ["id"], "an update of anything else stays on its page");
    app.finish().await;
}

/// Some 2 ms, and two busy cores. With the planner's wish to compile the statement granted it would be 60 ms.
const LONGEST_CLAIM: Duration = Duration::from_millis(30);

/// Copies a run so many times, with these columns otherwise: without keys to other tables, and with the time that it takes.
async fn copy_run(app: &TestApp, run_id: Uuid, copies: u32, otherwise: &str) {
    // As text, and not row by row through JSON, which would take minutes for a million.
    let columns: Vec<String> = sqlx::query_scalar(
        "SELECT quote_ident(column_name) FROM information_schema.columns WHERE table_name = 'runs' AND is_generated = 'NEVER' ORDER BY ordinal_position",
    )
    .fetch_all(&app.pool)
    .await
    .unwrap();
    let values = columns.iter().map(|column| match column.as_str() {
        // In the order of an index, as ours are by their time: a million in any order would take a minute.
        "id" | "session_id" => format!("lpad(to_hex(n + {copies}), 32, '0')::uuid"),
        column => {
            let given = otherwise.split(';').find_map(|pair| pair.trim().strip_prefix(&format!("{column} = ")));
            given.map_or_else(|| format!("r.{column}"), str::to_owned)
        }
    });
    let copy = format!(
        "INSERT INTO runs ({}) SELECT {} FROM runs r, generate_series(1, {copies}) n WHERE r.id = '{run_id}'",
        columns.join(", "),
        values.collect::<Vec<_>>().join(", ")
    );
    let mut bulk = app.pool.acquire().await.unwrap().detach();
    for statement in [
        "SET session_replication_role = replica",
        "SET statement_timeout = 0",
        // An analysis of the server's own would keep the entries that claims have left behind.
        "ALTER TABLE runs SET (autovacuum_enabled = off)",
        &copy,
    ] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut bulk).await.unwrap();
    }
}

/// A queue on a connection of its own, so that this connection's statistics can be asked for, and with a statement that is
/// planned for ever: from the sixth time on the plan may be a generic one.
async fn warmed_queue(app: &TestApp) -> (PgPool, Queue) {
    sqlx::query("ANALYZE runs").execute(&app.pool).await.unwrap();
    let pool = pool(app.config.database.url.as_deref().unwrap(), 1);
    let queue = Queue::new(pool.clone(), Notifier::off(), Some(1_000));
    for _ in 0..6 {
        queue.claim(worker_id(app).await, Room { floors: [2, 0, 0], shared: 0 }).await.unwrap();
    }
    (pool, queue)
}

/// The shortest of several claims of one run: the others were waiting for a processor.
async fn fastest_claim(app: &TestApp, queue: &Queue, claims: usize) -> Duration {
    let (worker, mut took) = (worker_id(app).await, Duration::MAX);
    for _ in 0..claims {
        let began = app.clock.elapsed();
        assert!(!queue.claim(worker, Room { floors: [1, 0, 0], shared: 0 }).await.unwrap().is_empty());
        took = took.min(app.clock.elapsed() - began);
    }
    took
}

/// With a hundred thousand runs that are not due and a million that have ended.
#[tokio::test]
async fn gate_b9_case_b15_case_b16_a_claim_reads_nothing_but_what_is_due() {
    const MOST_READ_PER_CLAIM: i64 = 60;
    const CLAIMS: usize = 10;
    let app = TestApp::start().await;
    let run_id = submit(&app, &Principal::dev(), "noop").await;
    copy_run(&app, run_id, 100_000, "scheduled_for = now() + interval '1 day'").await;
    copy_run(&app, run_id, 1_000_000, "status = 'COMPLETED'; finished_at = now(); last_sequence = 9").await;
    for _ in 0..3 * CLAIMS {
        submit(&app, &Principal::dev(), "noop").await;
    }
    let (pool, queue) = warmed_queue(&app).await;
    let before = reads(&pool).await;
    let took = fastest_claim(&app, &queue, CLAIMS).await;
    let after = reads(&pool).await;
    let (scans, read) = (after.0 - before.0, (after.1 - before.1) / i64::try_from(CLAIMS).unwrap());
    println!("a claim: {took:?}, {read} entries of indexes");
    assert_eq!(scans, 0, "the table is never read from one end to the other");
    assert!(took <= LONGEST_CLAIM, "{took:?} for a claim of one");
    assert!(read <= MOST_READ_PER_CLAIM, "{read} entries of indexes read for a claim of one");
    pool.close().await;
    app.finish_unaudited().await;
}

/// Somebody's old snapshot keeps what was once queued, and has long been claimed and finished, in the way of every claim.
#[tokio::test]
async fn case_b12_a_long_transaction_elsewhere_does_not_collapse_the_queue() {
    const DEAD: u32 = 20_000;
    const LONGEST_CLAIM: Duration = Duration::from_millis(50);
    let app = TestApp::start().await;
    let run_id = submit(&app, &Principal::dev(), "noop").await;
    let mut elsewhere = app.pool.begin().await.unwrap();
    sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").execute(&mut *elsewhere).await.unwrap();
    sqlx::query("SELECT count(*) FROM runs").execute(&mut *elsewhere).await.unwrap();
    copy_run(&app, run_id, DEAD, "created_at = now() - interval '1 hour'").await;
    let ended = "UPDATE runs SET status = 'COMPLETED', finished_at = now(), last_sequence = 9 WHERE created_at < now() - interval '59 minutes'";
    assert_eq!(sqlx::query(ended).execute(&app.pool).await.unwrap().rows_affected(), u64::from(DEAD));
    sqlx::query("VACUUM runs").execute(&app.pool).await.unwrap(); // which can do nothing about them
    for _ in 0..30 {
        submit(&app, &Principal::dev(), "noop").await;
    }
    let (pool, queue) = warmed_queue(&app).await;
    let took = fastest_claim(&app, &queue, 10).await;
    println!("a claim beside {DEAD} dead rows: {took:?}");
    assert!(took <= LONGEST_CLAIM, "{took:?} for a claim of one");
    elsewhere.rollback().await.unwrap();
    pool.close().await;
    app.finish_unaudited().await;
}

/// Sequential scans of the table of runs, and entries read in its indexes; of everything that this connection has done.
async fn reads(pool: &PgPool) -> (i64, i64) {
    sqlx::query("SELECT pg_stat_force_next_flush()").execute(pool).await.unwrap();
    sqlx::query_as(
        "SELECT (SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'runs'),
            (SELECT sum(idx_tup_read)::int8 FROM pg_stat_user_indexes WHERE relname = 'runs')",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn gate_b10_case_b17_one_tenants_thousand_runs_do_not_delay_anothers() {
    const MANY: usize = 1_000;
    let app = TestApp::start().await;
    let [many, one] = ["many", "one"].map(|tenant| Principal::new(tenant, "p", Scope::ALL.iter().copied()).unwrap());
    for _ in 0..MANY {
        submit(&app, &many, "noop").await;
    }
    let alone = submit(&app, &one, "noop").await;
    let queue = Queue::new(app.pool.clone(), Notifier::off(), None);
    let claimed = queue.claim(worker_id(&app).await, Room { floors: [8, 0, 0], shared: 0 }).await.unwrap();
    assert_eq!(claimed.len(), 8, "nothing is left free for the sake of fairness");
    assert!(claimed.iter().any(|run| run.lease.run_id() == alone));
    take_over(&app).await;
    let completed = count(&app.pool, &["run.completed"]).await;
    assert_eq!(completed.len(), MANY + 1);
    app.finish().await;
}

/// Every slot that interactive runs can have is taken, and as many of them wait.
#[tokio::test]
async fn gate_b10_maintenance_progresses_under_full_interactive_load() {
    const BACKGROUND: usize = 6;
    let slots = Slots { interactive: 2, r#async: 1, maintenance: 1, shared: 4 };
    let app = TestApp::start_with(|config| config.worker.slots = slots).await;
    let principal = Principal::dev();
    for _ in 0..20 {
        submit(&app, &principal, "wait 60").await;
    }
    let mut background = Vec::new();
    for class in ["ASYNC", "MAINTENANCE"].into_iter().cycle().take(BACKGROUND) {
        let run_id = submit(&app, &principal, "noop").await;
        // Nobody may ask for the last class.
        sqlx::query("UPDATE runs SET priority = $2 WHERE id = $1").bind(run_id).bind(class).execute(&app.pool).await.unwrap();
        background.push(run_id);
    }
    let working = Working::start(&app.worker);
    for run_id in background {
        app.http.run_in(run_id, "COMPLETED").await;
    }
    let running: i64 = sqlx::query_scalar("SELECT count(*) FROM runs WHERE status = 'RUNNING' AND priority = 'INTERACTIVE'")
        .fetch_one(&app.pool)
        .await
        .unwrap();
    assert_eq!(running, 6, "its own slots and the shared ones");
    for run_id in sqlx::query_scalar("SELECT id FROM runs WHERE finished_at IS NULL").fetch_all(&app.pool).await.unwrap() {
        app.http.cancel(run_id).await;
    }
    working.stop().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b19_of_thirty_two_claimers_none_takes_too_many_and_no_run_is_taken_twice() {
    const CLAIMERS: usize = 32;
    const RUNS: usize = 200;
    let app = TestApp::start().await;
    for _ in 0..RUNS {
        submit(&app, &Principal::dev(), "noop").await;
    }
    let pool = pool(app.config.database.url.as_deref().unwrap(), 16);
    let worker = worker_id(&app).await;
    let claimers = (0..CLAIMERS).map(|number| {
        let queue = Queue::new(pool.clone(), Notifier::off(), None);
        let floor = i32::try_from(number % 3).unwrap();
        tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                let claimed = queue.claim(worker, Room { floors: [floor, 0, 0], shared: 1 }).await.unwrap();
                assert!(claimed.len() <= usize::try_from(floor).unwrap() + 1, "{} for {floor} + 1", claimed.len());
                if claimed.is_empty() {
                    return taken;
                }
                taken.extend(claimed.iter().map(|run| run.lease.run_id()));
            }
        })
    });
    let mut taken: Vec<Uuid> = join_all(claimers).await.into_iter().flat_map(Result::unwrap).collect();
    // Each may have found the last ones locked by the others, and gone home.
    let queue = Queue::new(pool.clone(), Notifier::off(), None);
    let rest = queue.claim(worker, Room { floors: [1_000, 0, 0], shared: 0 }).await.unwrap();
    taken.extend(rest.iter().map(|run| run.lease.run_id()));
    assert_eq!((taken.len(), taken.iter().collect::<BTreeSet<_>>().len()), (RUNS, RUNS));
    let claims = count(&app.pool, &["run.claimed"]).await;
    assert!(claims.len() == RUNS && claims.values().all(|times| *times == 1), "{claims:?}");
    take_over(&app).await;
    assert_eq!(count(&app.pool, &["run.completed"]).await.len(), RUNS);
    pool.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b20_a_request_to_cancel_is_not_lost_to_a_claim() {
    let app = TestApp::start().await;
    let (principal, worker) = (Principal::dev(), worker_id(&app).await);
    let queue = Queue::new(app.pool.clone(), Notifier::off(), None);
    let room = Room { floors: [1, 0, 0], shared: 0 };
    let mut claimed_first = 0;
    for _ in 0..ROUNDS {
        let run_id = submit(&app, &principal, "noop").await;
        let (claimed, cancelled) =
            tokio::join!(queue.claim(worker, room), app.services.runs.cancel(&principal, run_id, Duration::ZERO));
        let (claimed, cancelled) = (claimed.unwrap(), cancelled.unwrap());
        match claimed.len() {
            0 => assert_eq!(cancelled.status, RunStatus::Cancelled),
            _ => assert!(cancelled.status == RunStatus::Running && cancelled.cancel.is_some(), "{cancelled:?}"),
        }
        claimed_first += claimed.len();
    }
    println!("{claimed_first} of {ROUNDS} were claimed first");
    take_over(&app).await;
    let ends = count(&app.pool, ENDS).await;
    assert_eq!((ends.len() as u64, ends.values().all(|times| *times == 1)), (ROUNDS, true));
    assert_eq!(count(&app.pool, &["run.cancelled"]).await.len() as u64, ROUNDS);
    assert!(count(&app.pool, &["model.request.started"]).await.is_empty(), "nothing of them was begun");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b21_a_run_ends_once_whether_it_finishes_or_is_cancelled() {
    let app = TestApp::start().await;
    let principal = Principal::dev();
    let mut ends = BTreeMap::<String, u64>::new();
    app.worker.renew().await.unwrap();
    for round in 0..ROUNDS {
        let run_id = submit(&app, &principal, "noop").await;
        let execution = tick(&app.worker);
        // Sooner and later in the execution: this is the race, not a wait for it.
        tokio::time::sleep(Duration::from_micros(round % 20 * 500)).await;
        let answered = app.services.runs.cancel(&principal, run_id, Duration::ZERO).await.unwrap();
        app.worker.renew().await.unwrap(); // brings the request
        execution.await.unwrap();
        let ended = app.services.runs.get(&principal, run_id).await.unwrap();
        assert!(ended.status.is_terminal(), "{ended:?}");
        if answered.status.is_terminal() {
            assert_eq!(answered.status, ended.status, "what was answered stands");
        }
        *ends.entry(ended.status.to_string()).or_default() += 1;
    }
    println!("{ends:?}");
    assert!(ends.len() == 2, "only one ever won: {ends:?}");
    let terminal = count(&app.pool, ENDS).await;
    assert_eq!((terminal.len() as u64, terminal.values().all(|times| *times == 1)), (ROUNDS, true));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b24_a_renewal_under_way_does_not_disturb_a_run_that_ends() {
    let app = TestApp::start().await;
    let principal = Principal::dev();
    for _ in 0..10 {
        join_all([(); 4].map(|()| submit(&app, &principal, "noop"))).await;
        app.worker.renew().await.unwrap();
        let execution = tick(&app.worker);
        while !execution.is_finished() {
            app.worker.renew().await.unwrap();
        }
        execution.await.unwrap();
    }
    app.work().await;
    assert_eq!(count(&app.pool, &["run.completed"]).await.len(), 40);
    assert!(count(&app.pool, &["run.requeued"]).await.is_empty(), "none was said to be lost");
    app.finish().await;
}

#[tokio::test]
async fn case_b25_a_worker_that_takes_a_lost_run_again_executes_it_under_its_new_lease() {
    let app = TestApp::start().await;
    let run_id = submit(&app, &Principal::dev(), "pause").await;
    app.worker.renew().await.unwrap();
    let lost = tick(&app.worker);
    is_asked(&app, run_id, 1).await;
    // Taken from it behind its back, and taken again before it knows.
    let queue = Queue::new(app.pool.clone(), Notifier::off(), None);
    assert_eq!(queue.release(worker_id(&app).await, &[(run_id, 1)], Duration::ZERO).await.unwrap(), 1);
    let again = tick(&app.worker);
    is_asked(&app, run_id, 2).await;
    let stopped = tokio::time::timeout(Duration::from_secs(1), lost).await;
    assert!(stopped.is_ok() && !again.is_finished(), "the lost one stops, and only that one");
    app.worker.renew().await.unwrap();
    again.await.unwrap();
    let run = app.http.run(run_id).await;
    assert_eq!((&run["status"], &run["usage"]["model_calls"]), (&json!("COMPLETED"), &json!(2)));
    assert_eq!(count(&app.pool, ENDS).await[&run_id], 1);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b27_after_an_outage_each_run_goes_on_once() {
    let app = TestApp::start().await;
    let other = app.another_worker(Faults::default()).await;
    let mut runs = Vec::new();
    let mut executions = Vec::new();
    for worker in [&app.worker, &other] {
        let run_id = submit(&app, &Principal::dev(), "pause").await;
        worker.renew().await.unwrap();
        executions.push(tick(worker));
        is_asked(&app, run_id, 1).await;
        runs.push(run_id);
    }
    // Every lease has run out at once; all who are alive come back at once.
    app.expire_workers().await;
    tokio::try_join!(app.worker.sweep(), other.sweep(), app.worker.renew(), other.renew()).unwrap();
    for worker in [&app.worker, &other] {
        worker.renew().await.unwrap();
    }
    app.worker.sweep().await.unwrap();
    app.work().await;
    for execution in executions {
        execution.await.unwrap();
    }
    app.work().await;
    let ends = count(&app.pool, &["run.completed"]).await;
    for run_id in runs {
        assert_eq!((app.http.run(run_id).await["status"].clone(), ends[&run_id]), (json!("COMPLETED"), 1));
    }
    app.finish().await;
}

/// A slot that becomes free while a claim is on its way is for a run that this claim has not seen.
#[tokio::test]
async fn a_freed_slot_takes_the_next_run_without_waiting_for_the_poll() {
    const RUNS: usize = 120;
    let app = TestApp::start_with(|config| {
        config.worker.slots = Slots { interactive: 3, r#async: 2, maintenance: 1, shared: 1 };
        config.worker.poll_interval = Duration::from_secs(3_600);
        config.database.notifications = Notifications::Off;
    })
    .await;
    for _ in 0..RUNS {
        submit(&app, &Principal::dev(), "work").await;
    }
    let working = Working::start(&app.worker);
    eventually("all runs have ended", || async {
        let left = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM runs WHERE finished_at IS NULL");
        (left.fetch_one(&app.pool).await.unwrap() == 0).then_some(())
    })
    .await;
    working.stop().await;
    app.finish().await;
}
