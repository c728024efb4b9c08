//! A stream goes on across the death of the API, and of Postgres.

use std::time::Duration;

use baton_core::clock::Clock;
use baton_core::{config, db};
use baton_devdb::databases;
use baton_devdb::testing::TempCluster;
use sqlx::PgPool;
use uuid::Uuid;

use crate::support::{Follower, Http, RealApp, eventually, pool};

/// Follows a run from a task of its own, as a client that knows of no restart.
fn follow(http: &Http, run_id: Uuid) -> tokio::task::JoinHandle<Follower> {
    let mut follower = Follower::new(http, run_id);
    tokio::spawn(async move {
        follower.follow_to_end().await;
        follower
    })
}

/// Waits until the run has so many events, whatever has happened to the pool's connections.
async fn has_events(pool: &PgPool, run_id: Uuid, count: i64) {
    let enough = || async {
        let counted = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM events WHERE run_id = $1").bind(run_id).fetch_one(pool);
        counted.await.ok().filter(|there| *there >= count)
    };
    eventually(&format!("run {run_id} has {count} events"), enough).await;
}

#[tokio::test]
async fn gate_a7_a_stream_is_resumed_across_kill_9_of_the_api() {
    let mut app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let run_id = app.http.start_run("slow work").await;
    let following = follow(&app.http, run_id);
    // In the middle of the first text, of the tools, and of the last text.
    for events in [5, 14, 19] {
        has_events(&app.pool, run_id, events).await;
        app.kill_api();
        app.restart_api().await;
    }
    let follower = following.await.unwrap();
    follower.assert_exactly_once(&app.pool).await;
    assert_eq!(follower.answer(), "The answer is 1000.");
    assert!(follower.connections > 1, "the stream was cut");
    app.finish().await;
}

/// How long the database may be away before workers are taken for dead: what is left of a lease when its renewal, which was
/// due, has failed.
fn patience() -> Duration {
    let worker = config::Worker::default();
    worker.lease - worker.renew * 2
}

/// A run is executed and followed while its Postgres goes away and comes back.
async fn across(restart: fn(&mut TempCluster)) {
    let mut cluster = TempCluster::start().unwrap();
    let url = databases::create_if_missing(&cluster, "baton").await.unwrap();
    let migrating = pool(&url, 1);
    db::apply_migrations(&migrating).await.unwrap();
    migrating.close().await;

    let mut app = RealApp::on(&url, &[]).await;
    let worker = app.start_worker().await;
    let run_id = app.http.start_run("slow work").await;
    let following = follow(&app.http, run_id);

    let clock = Clock::system();
    let mut away = Duration::ZERO;
    for events in [5, 14] {
        has_events(&app.pool, run_id, events).await;
        let began = clock.elapsed();
        restart(&mut cluster);
        away += clock.elapsed() - began;
    }
    app.pool = pool(&url, 4); // the old one has broken connections, which a test does not forgive

    let follower = following.await.unwrap();
    follower.assert_exactly_once(&app.pool).await;
    assert_eq!(follower.answer(), "The answer is 1000.");
    let run = app.http.run_in(run_id, "COMPLETED").await;
    assert_eq!((&run["step_count"], &run["usage"]["tool_calls"]), (&3.into(), &3.into()), "{run}");
    let claims = follower.events().iter().filter(|event| **event == "run.claimed").count();
    assert!(claims == 1 || away > patience(), "Postgres was away for {away:?}, and the run was claimed {claims} times");
    drop(worker);
    app.finish().await;
}

// The cluster belongs to the thread that starts it, which waits for the restart; the client goes on in another.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_a7_a_stream_is_resumed_across_a_restart_of_postgres() {
    across(|cluster| cluster.restart().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_a7_a_stream_is_resumed_across_a_crash_of_postgres() {
    let crash = |cluster: &mut TempCluster| {
        cluster.kill().unwrap();
        cluster.restart().unwrap();
    };
    across(crash).await;
}
