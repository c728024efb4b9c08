//! Streams that are cut, wherever they can be cut, and resumed: with every stored event exactly once.

use baton_core::config::{Config, Notifications};
use baton_core::fault::Faults;
use baton_worker::Worker;
use futures::{StreamExt, stream};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::events_wire::{Intruder, Wire, Working, follow_with_cuts, work};
use crate::support::{Follower, Frame, TestApp, eventually};

/// Clients at once: enough to be quick on two cores, and to share rings.
const CLIENTS: usize = 8;

/// A finished run, with all its bytes and sequences as an uncut stream brings them.
async fn captured(app: &TestApp, text: &str) -> (Uuid, Vec<u8>, Vec<i64>) {
    let run_id = app.http.start_run(text).await;
    work(app).await;
    let mut wire = Wire::open(&app.http, run_id, None).await;
    wire.until_end().await;
    let sequences = wire.sequences();
    (run_id, wire.bytes, sequences)
}

/// Follows a finished run with one cut after each of these numbers of bytes.
async fn cut_at(app: &TestApp, run_id: Uuid, offsets: impl Iterator<Item = usize>, expected: &[i64]) {
    let cut = stream::iter(offsets).map(|offset| async move {
        let mut follower = Follower::new(&app.http, run_id);
        if !follower.connect(offset).await {
            follower.follow_to_end().await;
        }
        assert_eq!(follower.sequences(), expected, "cut after {offset} bytes");
    });
    cut.buffer_unordered(CLIENTS).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn gate_a7_a_stream_cut_at_any_byte_is_resumed_without_loss_or_repeat() {
    let app = TestApp::start().await;
    let (run_id, bytes, sequences) = captured(&app, "noop").await;
    assert_eq!(sequences, (sequences[0]..=*sequences.last().unwrap()).collect::<Vec<_>>(), "the run was alone");
    // Each byte of the opening and the first events, then every third; one more than there are, since `retry` has three or
    // four digits.
    let offsets = (0..=bytes.len() + 1).filter(|offset| *offset < 600 || offset % 3 == 0);
    cut_at(&app, run_id, offsets, &sequences).await;
    app.finish().await;
}

#[tokio::test]
async fn gate_a7_a_stream_cut_at_every_frame_boundary_is_resumed_without_loss_or_repeat() {
    let app = TestApp::start().await;
    let (run_id, bytes, sequences) = captured(&app, "work").await;
    let ends = bytes.windows(2).enumerate().filter(|(_, pair)| pair == b"\n\n").map(|(at, _)| at + 2);
    // Around each boundary, on both sides; and somewhere inside.
    let mut random = StdRng::seed_from_u64(7);
    let inside = (0..40).map(|_| random.random_range(0..bytes.len())).collect::<Vec<_>>();
    cut_at(&app, run_id, ends.flat_map(|end| end - 2..=end + 2).chain(inside), &sequences).await;
    for seed in 0..20 {
        let follower = follow_with_cuts(app.http.clone(), run_id, seed).await;
        assert_eq!(follower.sequences(), sequences, "seed {seed}");
    }
    app.finish().await;
}

/// Runs of a session, one after the other, while somebody else writes to it. Each is followed by several clients while it
/// is executed and again, from its start, while the next one is.
async fn follow_live(app: &TestApp, worker: &Worker, texts: &[&str], seed: u64) {
    let session_id = app.http.create_session("test").await;
    let working = Working::start(worker);
    let intruder = Intruder::start(app.pool.clone(), session_id, seed);
    let mut runs: Vec<Uuid> = Vec::new();
    for text in texts {
        runs.push(app.http.submit(session_id, text).await);
        let newest = runs.iter().rev().take(2);
        let clients = newest.flat_map(|run_id| (0..CLIENTS as u64 / 2).map(|client| (*run_id, client)));
        let following = clients.map(|(run_id, client)| follow_with_cuts(app.http.clone(), run_id, seed ^ client));
        for follower in futures::future::join_all(following).await {
            follower.assert_exactly_once(&app.pool).await;
            assert!(follower.frames.last().is_some_and(Frame::is_end));
        }
    }
    assert!(intruder.stop().await > 10, "somebody else wrote meanwhile");
    working.stop().await;
}

#[tokio::test]
async fn gate_a7_live_streams_are_cut_while_others_write_to_the_session() {
    let app = TestApp::start().await;
    for seed in 1..=2 {
        let worker = app.another_worker(Faults::default()).await; // one that was stopped does not start again
        follow_live(&app, &worker, &["talk", "slow work", "cut once", "work"], seed).await;
    }
    app.finish().await;
}

#[tokio::test]
async fn gate_a7_live_streams_are_cut_with_notifications_off() {
    let app = TestApp::start_with(|config| config.database.notifications = Notifications::Off).await;
    follow_live(&app, &app.worker, &["talk", "slow work", "noop"], 3).await;
    app.finish().await;
}

/// The API listens, and nothing that a worker says arrives.
#[tokio::test]
async fn gate_a7_live_streams_are_cut_while_every_notification_of_the_worker_is_lost() {
    let app = TestApp::start().await;
    let silence = |config: &mut Config| config.database.notifications = Notifications::Off;
    let silent = app.another_worker_with(Faults::default(), &[], silence).await;
    follow_live(&app, &silent, &["talk", "slow work", "noop"], 4).await;
    app.finish().await;
}

/// Sessions of Postgres that listen, and those that notify.
const LISTENING: &str = "query LIKE 'LISTEN%'";
const NOTIFYING: &str = "query LIKE 'SELECT count(pg_notify(%'";

async fn terminate(pool: &PgPool, whom: &'static str) -> i64 {
    let terminate = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND {whom}"
    );
    sqlx::query_scalar(sqlx::AssertSqlSafe(terminate)).fetch_one(pool).await.unwrap()
}

/// Ends whoever listens and whoever notifies, again and again: each time when something new was written. How many that were.
async fn keep_terminating(pool: PgPool, stop: CancellationToken) -> (i64, i64) {
    let written = || async {
        sqlx::query_scalar::<_, i64>("SELECT coalesce(sum(last_sequence), 0)::bigint FROM sessions")
            .fetch_one(&pool)
            .await
            .unwrap()
    };
    let (mut listening, mut notifying, mut seen) = (0, 0, written().await);
    while !stop.is_cancelled() {
        let more = || async { Some(written().await).filter(|now| *now > seen || stop.is_cancelled()) };
        seen = eventually("something is written", more).await;
        listening += terminate(&pool, LISTENING).await;
        notifying += terminate(&pool, NOTIFYING).await;
    }
    (listening, notifying)
}

#[tokio::test]
async fn gate_a7_live_streams_are_cut_while_listeners_and_notifiers_are_terminated() {
    let app = TestApp::start().await;
    let stop = CancellationToken::new();
    let terminating = tokio::spawn(keep_terminating(app.pool.clone(), stop.clone()));
    follow_live(&app, &app.worker, &["talk", "slow work", "noop"], 5).await;
    stop.cancel();
    let (listening, notifying) = terminating.await.unwrap();
    assert!(listening > 3 && notifying > 1, "{listening} listeners and {notifying} notifiers were terminated");
    app.finish().await;
}
