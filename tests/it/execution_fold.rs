//! A run is the fold of its log, and nothing else.

use std::sync::Arc;

use baton_core::fault::{Action, Faults, Point};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::support::{Follower, TestApp, eventually};

/// What the run said and did, without who executed it.
async fn story(app: &TestApp, run_id: Uuid) -> Vec<String> {
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    follower.assert_exactly_once(&app.pool).await;
    let moved = ["run.claimed", "run.requeued", "run.resumed", "run.started", "model.request.started"];
    let told = follower.frames.iter().filter(|frame| frame.id.is_some() && !moved.contains(&frame.event()));
    told.map(|frame| {
        let mut data = frame.data.clone().unwrap();
        let body = data.as_object_mut().unwrap();
        for own in ["run_id", "session_id", "sequence", "created_at", "invocation_id", "attempt", "usage"] {
            body.remove(own);
        }
        data.to_string()
    })
    .collect()
}

#[tokio::test]
async fn gate_b5_another_process_reaches_the_same_end_from_every_boundary() {
    let app = TestApp::start().await;
    let undisturbed = app.http.start_run("work").await;
    app.work().await;
    let expected = story(&app, undisturbed).await;

    let mut boundary = 0;
    loop {
        boundary += 1;
        let faults = Faults::default();
        faults.arm(Point::AfterAppend, Action::Pause(Arc::new(Semaphore::new(0))), boundary);
        let first = app.another_worker(faults.clone()).await;
        let run_id = app.http.start_run("work").await;
        let execution = tokio::spawn({
            let first = first.clone();
            async move { first.tick().await.unwrap() }
        });
        let ended = eventually("the first worker stops or ends", || async {
            if execution.is_finished() { Some(true) } else { (!faults.is_armed(Point::AfterAppend)).then_some(false) }
        })
        .await;
        if ended {
            break;
        }
        execution.abort(); // the process is gone, with everything that it knew
        app.expire_workers().await;
        app.worker.renew().await.unwrap(); // declared dead with the others; starts over
        eventually("the run is queued again", || async {
            app.worker.sweep().await.unwrap();
            app.worker.renew().await.unwrap();
            let status: String =
                sqlx::query_scalar("SELECT status FROM runs WHERE id = $1").bind(run_id).fetch_one(&app.pool).await.unwrap();
            (status == "QUEUED" || status == "COMPLETED").then_some(())
        })
        .await;
        app.work().await;
        assert_eq!(story(&app, run_id).await, expected, "after boundary {boundary}");
    }
    assert!(boundary > 8, "`work` has more boundaries than {boundary}");
    app.finish().await;
}

#[tokio::test]
async fn gate_b6_no_transaction_is_open_while_a_model_or_a_tool_is_called() {
    let app = TestApp::start().await;
    for point in [Point::BeforeModel, Point::AfterModel, Point::BeforeTool, Point::AfterTool] {
        let until = Arc::new(Semaphore::new(0));
        app.faults.arm(point, Action::Pause(Arc::clone(&until)), 1);
        app.http.start_run("work").await;
        let worker = app.worker.clone();
        let execution = tokio::spawn(async move { worker.tick().await.unwrap() });
        eventually("the execution is there", || async { (!app.faults.is_armed(point)).then_some(()) }).await;

        let open: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND state <> 'active'",
        )
        .fetch_one(&app.pool)
        .await
        .unwrap();
        assert_eq!(open, 0, "at {point:?}");
        until.add_permits(1);
        execution.await.unwrap();
    }
    app.finish().await;
}
