//! Nothing falls between reading the log and hearing of what follows.
//!
//! In most of these tests the poll, which would find whatever fell there, gets no answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_core::config;
use baton_core::db::{self, Role};
use baton_core::notify::{Channel, Heard, Listener};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::StatusCode;
use tokio::time::Instant;
use uuid::Uuid;

use crate::events_proxy::{Blow, Proxy};
use crate::events_wire::{Wire, Working, append, append_and_notify, work};
use crate::support::{Follower, TestApp, TestDatabase, eventually};

/// Parts of statements of the product.
const LISTEN: &str = "LISTEN";
const POLL: &str = "FROM sessions s WHERE s.id = ANY";
/// The head of the session, with which a stream begins.
const HEAD: &str = "s.last_sequence AS head";
/// A page of the log.
const READ: &str = "AS bytes_before";

async fn behind(proxy: &Proxy) -> TestApp {
    TestApp::start_with(|config| proxy.lead(config)).await
}

/// A session with a run that nobody executes; its newest event is the third.
async fn queued(app: &TestApp) -> (Uuid, Uuid) {
    let session_id = app.http.create_session("test").await;
    (session_id, app.http.submit(session_id, "noop").await)
}

/// A queued run on an app behind the proxy, and a stream that has what there is of it.
async fn followed(proxy: &Proxy) -> (TestApp, Uuid, Uuid, Wire) {
    let app = behind(proxy).await;
    let (session_id, run_id) = queued(&app).await;
    let mut wire = Wire::open(&app.http, run_id, None).await;
    wire.until_sequence(3).await;
    (app, session_id, run_id, wire)
}

/// The run is executed, and the stream ends with it.
async fn to_its_end(app: TestApp, mut wire: Wire) {
    work(&app).await;
    wire.until_end().await;
    app.finish().await;
}

/// Long enough for the API to have come to whatever it can come to.
async fn rounds_through_the_api(app: &TestApp, run_id: Uuid) {
    for _ in 0..5 {
        let (status, _) = app.http.get(&format!("/v1/runs/{run_id}")).await;
        assert_eq!(status, StatusCode::OK);
    }
}

fn open(app: &TestApp, run_id: Uuid, cursor: Option<i64>) -> tokio::task::JoinHandle<Wire> {
    let http = app.http.clone();
    tokio::spawn(async move { Wire::open(&http, run_id, cursor).await })
}

#[tokio::test]
async fn case_a14_listen_is_confirmed_before_the_prefix_is_read() {
    let proxy = Proxy::start().await;
    proxy.hold(LISTEN);
    let app = behind(&proxy).await;
    let (session_id, run_id) = queued(&app).await;
    proxy.holds(LISTEN).await;

    let opening = open(&app, run_id, None);
    rounds_through_the_api(&app, run_id).await;
    assert_eq!(proxy.asked(HEAD), 0, "the head was read before LISTEN was confirmed");
    let injected = append(&mut app.pool.acquire().await.unwrap(), session_id, Some(run_id)).await;
    proxy.hold(POLL);
    proxy.release(LISTEN);

    let mut wire = opening.await.unwrap();
    wire.until_sequence(injected).await;
    assert_eq!((wire.sequences(), injected), (vec![2, 3, 4], 4));
    to_its_end(app, wire).await;
}

/// The hint comes when the head has been read and nobody watches the session yet.
#[tokio::test]
async fn case_a14_what_commits_between_the_head_and_the_watch_is_found() {
    let proxy = Proxy::start().await;
    let app = behind(&proxy).await;
    let (session_id, run_id) = queued(&app).await;
    proxy.hold(POLL);
    proxy.hold(HEAD);
    let opening = open(&app, run_id, Some(3));
    proxy.holds(HEAD).await;
    let injected = append_and_notify(&app.pool, session_id, run_id).await;
    proxy.told(&format!("{session_id}:{injected}")).await;
    rounds_through_the_api(&app, run_id).await;
    proxy.release(HEAD);

    let mut wire = opening.await.unwrap();
    wire.until_sequence(injected).await;
    assert_eq!((wire.sequences(), injected), (vec![4], 4));
    to_its_end(app, wire).await;
}

/// Whatever commits while nobody listens is read once LISTEN is confirmed again, and not before.
#[tokio::test]
async fn case_a9_a_lost_listener_listens_again_before_it_reads_again() {
    let proxy = Proxy::start().await;
    let (app, session_id, run_id, mut wire) = followed(&proxy).await;
    proxy.hold(POLL);
    // Once this has come over the wire, every read that was under way before is over.
    let newest = append_and_notify(&app.pool, session_id, run_id).await;
    wire.until_sequence(newest).await;
    proxy.holds(POLL).await;

    proxy.hold(LISTEN);
    sqlx::query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'",
    )
    .execute(&app.pool)
    .await
    .unwrap();
    proxy.holds(LISTEN).await;
    let reads = proxy.asked(READ);
    let unheard = append(&mut app.pool.acquire().await.unwrap(), session_id, Some(run_id)).await;
    wire.until_heartbeats(2).await;
    assert_eq!((proxy.asked(READ), wire.sequences().last()), (reads, Some(&newest)), "the log was read before LISTEN");
    proxy.release(LISTEN);
    wire.until_sequence(unheard).await;
    assert_eq!(wire.sequences(), (2..=unheard).collect::<Vec<_>>());
    to_its_end(app, wire).await;
}

/// However its connection ends, there is another one soon, and what was committed meanwhile is read.
#[tokio::test]
async fn case_a10_a_listener_is_rebuilt_after_every_kind_of_end() {
    let proxy = Proxy::start().await;
    let (app, session_id, run_id, mut wire) = followed(&proxy).await;
    proxy.hold(POLL);
    for blow in [Blow::Close, Blow::Reset, Blow::Close, Blow::Reset] {
        proxy.hold(LISTEN);
        proxy.strike_listeners(blow);
        proxy.holds(LISTEN).await;
        let unheard = append(&mut app.pool.acquire().await.unwrap(), session_id, Some(run_id)).await;
        proxy.release(LISTEN);
        wire.until_sequence(unheard).await;
        let heard = append_and_notify(&app.pool, session_id, run_id).await;
        wire.until_sequence(heard).await;
    }
    proxy.release(POLL);
    to_its_end(app, wire).await;
}

#[tokio::test]
async fn case_a10_a_database_that_takes_no_connections_is_not_asked_all_the_time() {
    /// Less than five a second.
    const TRIES: usize = 5;
    const AT_LEAST: Duration = Duration::from_secs(1);
    let proxy = Proxy::start().await;
    let (app, session_id, run_id, mut wire) = followed(&proxy).await;
    proxy.refuse(true);
    proxy.strike_listeners(Blow::Reset);
    let began = Instant::now();
    eventually("it was refused often", || async { (proxy.refused() >= TRIES).then_some(()) }).await;
    assert!(began.elapsed() > AT_LEAST, "{TRIES} connections in {:?}", began.elapsed());
    proxy.refuse(false);
    let sequence = append_and_notify(&app.pool, session_id, run_id).await;
    wire.until_sequence(sequence).await;
    drop(wire);
    work(&app).await;
    app.finish().await;
}

/// The connection is there, nothing comes over it, and no poll hides that.
#[tokio::test]
async fn case_a11_a_listener_that_hears_nothing_is_replaced() {
    let proxy = Proxy::start().await;
    let (app, session_id, run_id, mut wire) = followed(&proxy).await;
    proxy.hold(POLL);
    // Once this has come, every poll that was under way is over.
    let heard = append_and_notify(&app.pool, session_id, run_id).await;
    wire.until_sequence(heard).await;
    proxy.holds(POLL).await;
    proxy.strike_listeners(Blow::Silence);
    let unheard = append_and_notify(&app.pool, session_id, run_id).await;
    wire.until_sequence(unheard).await;
    to_its_end(app, wire).await;
}

/// The same with a poll: nobody waits for the replacement.
#[tokio::test]
async fn case_a11_the_poll_brings_what_a_listener_does_not_hear() {
    const SOON: Duration = Duration::from_secs(5);
    let proxy = Proxy::start().await;
    let (app, session_id, run_id, mut wire) = followed(&proxy).await;
    proxy.strike_listeners(Blow::Silence);
    let unheard = append_and_notify(&app.pool, session_id, run_id).await;
    tokio::time::timeout(SOON, wire.until_sequence(unheard)).await.expect("the poll finds it");
    to_its_end(app, wire).await;
}

/// Streams are opened at the end of the log while events are written to it, each at a slightly other moment.
#[tokio::test]
async fn case_a14_no_event_falls_into_the_opening_of_a_stream() {
    let proxy = Proxy::start().await;
    let app = behind(&proxy).await;
    let (session_id, run_id) = queued(&app).await;
    proxy.hold(POLL);
    let mut random = StdRng::seed_from_u64(14);
    let mut newest = 3;
    for _ in 0..200 {
        let cursor = random.random_bool(0.7).then_some(newest);
        let turns = random.random_range(0..40);
        let writing = async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            append_and_notify(&app.pool, session_id, run_id).await
        };
        let (mut wire, written) = tokio::join!(Wire::open(&app.http, run_id, cursor), writing);
        wire.until_sequence(written).await;
        assert_eq!(wire.sequences(), (cursor.unwrap_or(1) + 1..=written).collect::<Vec<_>>());
        newest = written;
    }
    work(&app).await;
    app.finish().await;
}

/// A listener inside a transaction would hear nothing until its end, and hold up the queue of all others.
#[tokio::test]
async fn case_a14_the_listener_is_never_inside_a_transaction() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("slow work").await;
    let working = Working::start(&app.worker);
    let ended = AtomicBool::new(false);
    let following = async {
        let mut follower = Follower::new(&app.http, run_id);
        follower.follow_to_end().await;
        ended.store(true, Ordering::Relaxed);
        follower.assert_exactly_once(&app.pool).await;
    };
    let watching = async {
        let calm = ["idle", "idle"]; // ours and the worker's; not "idle in transaction"
        eventually("two listen", || async { (listeners(&app).await == calm).then_some(()) }).await;
        while !ended.load(Ordering::Relaxed) {
            assert_eq!(listeners(&app).await, calm);
        }
    };
    tokio::join!(following, watching);
    working.stop().await;
    app.finish().await;
}

/// The state of each listening session. (`xact_start` says less: Postgres itself opens a transaction to look at a
/// notification, and dates it back to the last statement.)
async fn listeners(app: &TestApp) -> Vec<String> {
    let looking = sqlx::query_scalar(
        "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND pid <> pg_backend_pid()",
    );
    looking.fetch_all(&app.pool).await.unwrap()
}

/// LISTEN succeeds and nothing is heard, as behind a pooler: the process knows, and may be led around it.
#[tokio::test]
async fn a_listener_knows_whether_it_hears() {
    let (here, elsewhere) = (TestDatabase::create().await, TestDatabase::create().await);
    for (listen_url, is_deaf) in [(None, false), (Some(&elsewhere.url), true), (Some(&here.url), false)] {
        let database =
            config::Database { url: Some(here.url.clone()), listen_url: listen_url.cloned(), ..config::Database::default() };
        let ways = db::ways(&database, Role::Api).unwrap().unwrap();
        let mut listener = Listener::new(ways, &[Channel::Events, Channel::Live]);
        assert_eq!(listener.is_deaf(), None);
        assert_eq!(listener.next().await, Heard::Listening);
        assert_eq!(listener.is_deaf(), Some(is_deaf));
    }
    here.remove().await;
    elsewhere.remove().await;
}
