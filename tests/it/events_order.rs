//! The order of commits is the order of sequences, and a sequence that was not committed was never given.

use std::sync::Arc;
use std::time::Duration;

use baton_core::fault::{Action, Point};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::StatusCode;
use sqlx::{PgPool, Postgres, Transaction};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::events_wire::{Wire, append, append_and_notify, follow_with_cuts, notify, work};
use crate::support::{TestApp, eventually, message};

/// From a commit to a client: a second, with which a busy machine may take its time.
const PROMPT: Duration = Duration::from_secs(3);

/// A transaction that has taken the session's next sequence and does not commit.
struct Held {
    transaction: Transaction<'static, Postgres>,
    backend: i32,
    sequence: i64,
}

impl Held {
    async fn begin(pool: &PgPool, session_id: Uuid, run_id: Option<Uuid>) -> Self {
        let mut transaction = pool.begin().await.unwrap();
        let backend = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *transaction).await.unwrap();
        let sequence = append(&mut transaction, session_id, run_id).await;
        Self { transaction, backend, sequence }
    }

    /// Waits until somebody waits for this transaction.
    async fn is_waited_for(&self, pool: &PgPool) {
        eventually("somebody waits for the lower sequence", || async {
            let waiting = sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))");
            let waiting: i64 = waiting.bind(self.backend).fetch_one(pool).await.unwrap();
            (waiting > 0).then_some(())
        })
        .await;
    }
}

/// The writer of a higher sequence waits for the lower one, and a reader that is made to look in between sees neither.
/// Then it gets both, in order.
async fn check_order(app: &TestApp, wire: &mut Wire, held: Held, session_id: Uuid, writer: JoinHandle<()>) {
    let before = wire.sequences();
    held.is_waited_for(&app.pool).await;
    notify(&app.pool, session_id, held.sequence + 1).await;
    wire.until_heartbeats(3).await; // longer than the poll, too
    assert!(!writer.is_finished(), "a higher sequence was committed");
    assert_eq!(wire.sequences(), before);

    let lower = held.sequence;
    held.transaction.commit().await.unwrap();
    notify(&app.pool, session_id, lower).await;
    writer.await.unwrap();
    let arriving = tokio::time::timeout(PROMPT, wire.until_sequence(lower + 1));
    arriving.await.expect("both come at once");
    assert_eq!(wire.sequences()[before.len()..][..2], [lower, lower + 1]);
}

#[tokio::test]
async fn case_a1_a_reader_never_skips_a_sequence_that_commits_later() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let run_id = app.http.submit(session_id, "noop").await;
    let mut wire = Wire::open(&app.http, run_id, None).await;
    wire.until_sequence(3).await;

    // A claim waits; then, at its next write, the worker that executes the run.
    let next_write = Arc::new(Semaphore::new(0));
    app.faults.arm(Point::BeforeAppend, Action::Pause(Arc::clone(&next_write)), 1);
    let held = Held::begin(&app.pool, session_id, Some(run_id)).await;
    app.worker.renew().await.unwrap();
    let worker = app.worker.clone();
    let executing = tokio::spawn(async move { worker.tick().await.unwrap() });
    let claimed = tokio::spawn(claimed(app.pool.clone(), run_id));
    check_order(&app, &mut wire, held, session_id, claimed).await;

    wire.until("the start", |frames| frames.iter().any(|frame| frame.event() == "run.started")).await;
    let held = Held::begin(&app.pool, session_id, Some(run_id)).await;
    let (pool, appends) = (app.pool.clone(), appends(&app.pool, run_id).await);
    app.worker.renew().await.unwrap(); // all this takes a while
    next_write.add_permits(1);
    let written = tokio::spawn(async move {
        eventually("the worker has written", || async { (self::appends(&pool, run_id).await > appends).then_some(()) }).await;
    });
    check_order(&app, &mut wire, held, session_id, written).await;

    assert_eq!(executing.await.unwrap(), 1);
    wire.until_end().await;
    assert_dense(&app.pool, session_id, run_id, &wire).await;

    // A submission waits, and its run begins after what it has waited for.
    let held = Held::begin(&app.pool, session_id, None).await;
    let http = app.http.clone();
    let submitting = tokio::spawn(async move { http.submit(session_id, "noop").await });
    held.is_waited_for(&app.pool).await;
    let lower = held.sequence;
    held.transaction.commit().await.unwrap();
    let run_id = submitting.await.unwrap();
    let mut wire = Wire::open(&app.http, run_id, Some(lower - 1)).await;
    wire.until_sequence(lower + 2).await;
    assert_eq!(wire.sequences(), [lower + 1, lower + 2]);
    work(&app).await;
    app.finish().await;
}

async fn claimed(pool: PgPool, run_id: Uuid) {
    eventually("the run is claimed", || async {
        let status: String =
            sqlx::query_scalar("SELECT status FROM runs WHERE id = $1").bind(run_id).fetch_one(&pool).await.unwrap();
        (status == "RUNNING").then_some(())
    })
    .await;
}

async fn appends(pool: &PgPool, run_id: Uuid) -> i32 {
    sqlx::query_scalar("SELECT appends FROM runs WHERE id = $1").bind(run_id).fetch_one(pool).await.unwrap()
}

/// The client has every event of the run once, and the session has every number from 1 once.
async fn assert_dense(pool: &PgPool, session_id: Uuid, run_id: Uuid, wire: &Wire) {
    let events: Vec<(i64, Option<Uuid>)> =
        sqlx::query_as("SELECT sequence, run_id FROM events WHERE session_id = $1 ORDER BY sequence")
            .bind(session_id)
            .fetch_all(pool)
            .await
            .unwrap();
    assert!(events.iter().zip(1..).all(|((sequence, _), expected)| *sequence == expected), "{events:?}");
    let ours: Vec<i64> = events.iter().filter(|(_, of)| *of == Some(run_id)).map(|(sequence, _)| *sequence).collect();
    assert_eq!(wire.sequences(), ours);
}

/// A submission to a busy session takes numbers, fails, and is rolled back: the product's own rollback.
async fn refused(app: &TestApp, session_id: Uuid) {
    let (status, _) = app.http.post(&format!("/v1/sessions/{session_id}/messages"), &message("noop")).await;
    assert_eq!(status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn case_a2_rollbacks_leave_no_hole() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let run_id = app.http.submit(session_id, "noop").await;
    let mut wire = Wire::open(&app.http, run_id, None).await;
    let mut random = StdRng::seed_from_u64(2);
    let mut newest = 0;
    for _ in 0..200 {
        let mut transaction = app.pool.begin().await.unwrap();
        let sequence = append(&mut transaction, session_id, Some(run_id)).await;
        if random.random_bool(0.2) {
            transaction.rollback().await.unwrap();
            refused(&app, session_id).await;
            continue;
        }
        transaction.commit().await.unwrap();
        newest = sequence;
        if random.random_bool(0.5) {
            notify(&app.pool, session_id, sequence).await;
        }
    }
    // Whether the last of them was announced or not.
    wire.until_sequence(newest).await;
    work(&app).await;
    wire.until_end().await;
    assert_dense(&app.pool, session_id, run_id, &wire).await;
    assert!(wire.sequences().len() > 150, "most of them were committed");
    app.finish().await;
}

/// Somebody's transaction, with a snapshot and a transaction id of its own, is open all the time.
#[tokio::test]
async fn case_a3_a_long_transaction_elsewhere_holds_nothing_up() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let run_id = app.http.submit(session_id, "noop").await;
    let mut wire = Wire::open(&app.http, run_id, None).await;
    wire.until_sequence(3).await;
    let mut elsewhere = app.pool.begin().await.unwrap();
    sqlx::query("SELECT pg_current_xact_id(), count(*) FROM events").execute(&mut *elsewhere).await.unwrap();
    for _ in 0..10 {
        let sequence = append_and_notify(&app.pool, session_id, run_id).await;
        tokio::time::timeout(PROMPT, wire.until_sequence(sequence)).await.expect("an event comes at once");
    }
    work(&app).await;
    wire.until_end().await;
    assert_dense(&app.pool, session_id, run_id, &wire).await;
    elsewhere.rollback().await.unwrap();
    app.finish().await;
}

/// Identifiers have nothing to do with a clock, which is the same for all of them.
#[tokio::test]
async fn case_c12_a_thousand_events_of_one_moment_come_once_each() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let run_id = app.http.submit(session_id, "noop").await;
    let mut transaction = app.pool.begin().await.unwrap();
    for _ in 0..1_000 {
        append(&mut transaction, session_id, Some(run_id)).await;
    }
    transaction.commit().await.unwrap();
    let moments: i64 =
        sqlx::query_scalar("SELECT count(*) FROM (SELECT 1 FROM events GROUP BY created_at HAVING count(*) > 999) m")
            .fetch_one(&app.pool)
            .await
            .unwrap();
    assert_eq!(moments, 1, "the test means one moment");
    work(&app).await;
    let follower = follow_with_cuts(app.http.clone(), run_id, 12).await;
    assert!(follower.connections > 20, "{} connections", follower.connections);
    follower.assert_exactly_once(&app.pool).await;
    app.finish().await;
}
