//! Bytes that nobody has a row for are collected once they are old; those that somebody has, or may still get, are not.

use std::sync::Arc;
use std::time::Duration;

use baton_core::artifacts::{ArtifactStore, ORPHAN_AGE_MIN, ORPHAN_BATCH_MAX};
use baton_core::clock::Clock;
use baton_core::fault::{Action, Faults, Point};
use bytes::Bytes;
use futures::TryStreamExt;
use sqlx::PgPool;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::support::{TestApp, calls_of, eventually};

const CONTENT: &[u8] = b"a note";

#[tokio::test]
async fn old_bytes_without_a_row_are_collected_and_no_others() {
    let app = TestApp::start().await;
    let clock = Clock::manual(Clock::system().now());
    let store = ArtifactStore::open(&app.config.artifacts, clock.clone()).unwrap();
    let with_row = app.http.start_run("write a file").await;
    app.work().await;
    let unsettled = interrupted(&app).await;
    let session_id = app.http.create_session("test").await;
    let orphan = Uuid::from_u128(1);
    let put = store.writer("dev", session_id, orphan).put_bytes("x", "text/plain", Bytes::from_static(CONTENT)).await;
    let sha256 = put.unwrap().sha256;
    let is_there = async |(session, artifact): (Uuid, Uuid)| match store.read("dev", session, artifact, &sha256).await {
        Ok(chunks) => chunks.try_collect::<Vec<_>>().await.is_ok(),
        Err(_) => false,
    };
    let of_call = [of_call(&app.pool, with_row).await, of_call(&app.pool, unsettled).await];
    let collect = || store.collect_orphans(&app.pool, ORPHAN_AGE_MIN, ORPHAN_BATCH_MAX);

    assert_eq!(collect().await.unwrap(), 0, "everything is young");
    clock.advance(ORPHAN_AGE_MIN - Duration::from_secs(60));
    assert_eq!(collect().await.unwrap(), 0, "everything is young still");
    assert!(is_there((session_id, orphan)).await);
    clock.advance(Duration::from_secs(120));
    assert_eq!(collect().await.unwrap(), 1);
    assert!(!is_there((session_id, orphan)).await);
    for object in of_call {
        assert!(is_there(object).await, "{object:?}");
    }

    // The call ends without a row: its bytes are nobody's from now on.
    app.http.cancel(unsettled).await;
    app.work().await;
    assert_eq!(calls_of(&app.pool, unsettled).await, ["artifact.write UNCERTAIN"]);
    assert_eq!(collect().await.unwrap(), 1);
    assert!(is_there(of_call[0]).await && !is_there(of_call[1]).await);
    assert_eq!(collect().await.unwrap(), 0);
    app.finish().await;
}

/// A run whose process has died when the bytes of its call were stored, and nothing of it was on record.
async fn interrupted(app: &TestApp) -> Uuid {
    let faults = Faults::default();
    faults.arm(Point::AfterTool, Action::Pause(Arc::new(Semaphore::new(0))), 1);
    let doomed = app.another_worker(faults.clone()).await;
    let run_id = app.http.start_run("write a file").await;
    let execution = tokio::spawn(async move { doomed.tick().await.unwrap() });
    eventually("the bytes are stored", || async { (!faults.is_armed(Point::AfterTool)).then_some(()) }).await;
    execution.abort();
    app.lose_workers(run_id).await;
    run_id
}

/// Session and artifact of a run's call: an artifact is called as its call is.
async fn of_call(pool: &PgPool, run_id: Uuid) -> (Uuid, Uuid) {
    let query = "SELECT r.session_id, i.id FROM runs r JOIN tool_invocations i ON i.run_id = r.id WHERE r.id = $1";
    sqlx::query_as(query).bind(run_id).fetch_one(pool).await.unwrap()
}
