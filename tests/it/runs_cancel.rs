//! Asking a run to stop: whatever state it is in, whoever executes it, whether or not anybody is told.

use std::sync::Arc;
use std::time::Duration;

use baton_core::fault::{Action, Point};
use baton_worker::Worker;
use nix::sys::signal::Signal;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::support::{Caller, Follower, Http, Process, RealApp, TestApp, eventually, within};

/// A worker renews, and hears of requests to cancel, every 3 s; the rest is for two busy cores.
const HEARTBEAT_AND_MARGIN: Duration = Duration::from_millis(4_500);

#[tokio::test]
async fn gate_a8_a_running_run_in_another_process_is_cancelled_without_notifications() {
    a_running_run_is_cancelled("off", HEARTBEAT_AND_MARGIN).await;
}

#[tokio::test]
async fn a_running_run_in_another_process_is_cancelled_at_once_with_notifications() {
    a_running_run_is_cancelled("on", Duration::from_secs(1)).await;
}

async fn a_running_run_is_cancelled(notifications: &str, bound: Duration) {
    let app = RealApp::start(&[("BATON_DATABASE__NOTIFICATIONS", notifications)]).await;
    let _worker = app.start_worker().await;
    let run_id = app.http.start_run("wait 60").await;
    model_is_asked(&app.http, run_id).await;

    let (status, run) = app.http.cancel(run_id).await;
    assert_eq!((status, &run["status"], &run["cancel"]["settled_at"]), (StatusCode::ACCEPTED, &json!("RUNNING"), &json!(null)));
    let run = settled_within(bound, &app.http, run_id).await;
    assert_eq!(run["status"], "CANCELLED");
    assert!(run["cancel"]["observed_at"].is_string(), "{run}");
    assert_eq!(run["cancel"]["settled_at"], run["finished_at"]);
    let events = events_of(&app.http, run_id).await;
    assert_eq!(events[4..], ["model.request.started", "run.cancel_requested", "model.response.failed", "run.cancelled"]);
    app.finish().await;
}

#[tokio::test]
async fn case_b4_a_request_to_cancel_is_seen_while_a_worker_drains() {
    let app = RealApp::start(&[("BATON_DATABASE__NOTIFICATIONS", "off")]).await;
    let mut worker = app.start_worker().await;
    let run_id = app.http.start_run("wait 60").await;
    model_is_asked(&app.http, run_id).await;
    worker.signal(Signal::SIGTERM);
    renewed(&app, &worker).await; // by now it drains, and still renews

    assert_eq!(app.http.cancel(run_id).await.0, StatusCode::ACCEPTED);
    assert_eq!(settled_within(HEARTBEAT_AND_MARGIN, &app.http, run_id).await["status"], "CANCELLED");
    assert!(worker.ended().await.success());
    app.finish().await;
}

#[tokio::test]
async fn a_queued_run_is_cancelled_at_once_and_never_executed() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("work").await;
    let (status, run) = app.http.cancel(run_id).await;
    assert_eq!((status, &run["status"], &run["started_at"]), (StatusCode::OK, &json!("CANCELLED"), &json!(null)));
    assert_eq!(run["cancel"]["settled_at"], run["finished_at"]);

    assert_eq!(app.worker.tick().await.unwrap(), 0);
    let events = events_of(&app.http, run_id).await;
    assert_eq!(events, ["user.message.created", "run.queued", "run.cancel_requested", "run.cancelled"]);
    // The session is free again.
    app.http.submit(app.http.run(run_id).await["session_id"].as_str().unwrap().parse().unwrap(), "noop").await;
    app.work().await;
    app.finish().await;
}

#[tokio::test]
async fn a_finished_run_stays_as_it_is() {
    let app = TestApp::start().await;
    let completed = app.http.start_run("noop").await;
    let failed = app.http.start_run("permanent").await;
    app.work().await;
    let cancelled = app.http.start_run("noop").await;
    app.http.cancel(cancelled).await;
    for (run_id, end) in [(completed, "COMPLETED"), (failed, "FAILED"), (cancelled, "CANCELLED")] {
        let (before, events) = (app.http.run(run_id).await, events_of(&app.http, run_id).await);
        assert_eq!(before["status"], end);
        assert_eq!(app.http.cancel(run_id).await, (StatusCode::OK, before));
        assert_eq!(events_of(&app.http, run_id).await, events);
    }
    app.finish().await;
}

#[tokio::test]
async fn a_repeated_request_changes_nothing() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("wait 60").await;
    let execution = execute(&app.worker);
    model_is_asked(&app.http, run_id).await;

    let (status, first) = app.http.cancel(run_id).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    for _ in 0..3 {
        assert_eq!(app.http.cancel(run_id).await, (StatusCode::ACCEPTED, first.clone()));
    }
    app.worker.renew().await.unwrap(); // the heartbeat brings the request
    assert_eq!(execution.await.unwrap(), 1);
    let (status, run) = app.http.cancel(run_id).await;
    assert_eq!((status, &run["status"]), (StatusCode::OK, &json!("CANCELLED")));
    assert_eq!(run["cancel"]["requested_at"], first["cancel"]["requested_at"]);
    let events = events_of(&app.http, run_id).await;
    assert_eq!(events.iter().filter(|event| *event == "run.cancel_requested").count(), 1);
    app.finish().await;
}

#[tokio::test]
async fn another_principals_run_is_not_found() {
    let app = TestApp::start().await;
    let owner = app.http.with_caller(Caller::new("acme", "alice"));
    let run_id = owner.start_run("noop").await;
    let nothing = Uuid::from_u128(0x0123_4567_89ab_cdef);
    for (tenant, principal) in [("acme", "bob"), ("other", "alice"), ("dev", "dev")] {
        let stranger = app.http.with_caller(Caller::new(tenant, principal));
        let (foreign, random) = (stranger.cancel(run_id).await, stranger.cancel(nothing).await);
        assert_eq!(foreign.0, StatusCode::NOT_FOUND);
        assert_eq!((foreign.0, without_request_id(foreign.1)), (random.0, without_request_id(random.1)));
    }
    assert_eq!(owner.run(run_id).await["cancel"], json!(null));
    app.work().await;
    assert_eq!(owner.run(run_id).await["status"], "COMPLETED");
    app.finish().await;
}

#[tokio::test]
async fn a_run_that_was_finished_before_it_saw_the_request_completes() {
    let app = TestApp::start().await;
    let end = Arc::new(Semaphore::new(0));
    app.faults.arm(Point::BeforeFinish, Action::Pause(Arc::clone(&end)), 1);
    let run_id = app.http.start_run("noop").await;
    let execution = execute(&app.worker);
    model_is_asked(&app.http, run_id).await;

    assert_eq!(app.http.cancel(run_id).await.0, StatusCode::ACCEPTED);
    end.add_permits(1);
    execution.await.unwrap();
    let run = app.http.run(run_id).await;
    assert_eq!((&run["status"], &run["cancel"]["observed_at"]), (&json!("COMPLETED"), &json!(null)));
    assert_eq!(run["cancel"]["settled_at"], run["finished_at"]);
    app.finish().await;
}

#[tokio::test]
async fn a_cancelled_run_that_lost_its_worker_is_cancelled_without_another_call() {
    let app = TestApp::start().await;
    let folded = Arc::new(Semaphore::new(0));
    app.faults.arm(Point::AfterFold, Action::Pause(Arc::clone(&folded)), 1);
    let run_id = app.http.start_run("work").await;
    let execution = execute(&app.worker);
    app.http.run_in(run_id, "RUNNING").await;
    assert_eq!(app.http.cancel(run_id).await.0, StatusCode::ACCEPTED);

    app.expire_workers().await;
    let heir = app.another_worker(app.faults.clone()).await;
    assert_eq!(heir.sweep().await.unwrap().unwrap().runs_requeued, 1);
    assert_eq!(heir.tick().await.unwrap(), 1);
    let run = app.http.run(run_id).await;
    assert_eq!((&run["status"], &run["usage"]["model_calls"]), (&json!("CANCELLED"), &json!(0)));
    assert!(run["cancel"]["observed_at"].is_string(), "{run}");

    let events = events_of(&app.http, run_id).await;
    folded.add_permits(1);
    execution.await.unwrap(); // fenced: it has nothing more to say
    assert_eq!(events_of(&app.http, run_id).await, events);
    assert_eq!(events[4..], ["run.cancel_requested", "run.requeued", "run.claimed", "run.resumed", "run.cancelled"]);
    app.finish().await;
}

/// One tick beside the test, which may stop it half-way.
fn execute(worker: &Worker) -> JoinHandle<usize> {
    let worker = worker.clone();
    tokio::spawn(async move { worker.tick().await.unwrap() })
}

async fn model_is_asked(http: &Http, run_id: Uuid) {
    eventually("the model is asked", || async { (http.run(run_id).await["step_count"] == 1).then_some(()) }).await;
}

async fn settled_within(bound: Duration, http: &Http, run_id: Uuid) -> Value {
    within(bound, "the run has ended", || async {
        let run = http.run(run_id).await;
        run["finished_at"].is_string().then_some(run)
    })
    .await
}

/// Until the worker has renewed its lease once more.
async fn renewed(app: &RealApp, worker: &Process) {
    let renewed_at = async || {
        let query = sqlx::query_scalar::<_, String>("SELECT renewed_at::text FROM workers WHERE pid = $1");
        query.bind(i32::try_from(worker.pid()).unwrap()).fetch_one(&app.pool).await.unwrap()
    };
    let before = renewed_at().await;
    eventually("the lease is renewed", || async { (renewed_at().await != before).then_some(()) }).await;
}

async fn events_of(http: &Http, run_id: Uuid) -> Vec<String> {
    let mut follower = Follower::new(http, run_id);
    follower.follow_to_end().await;
    follower.events().into_iter().map(str::to_owned).collect()
}

fn without_request_id(mut error: Value) -> Value {
    error["error"].as_object_mut().unwrap().remove("request_id").unwrap();
    error
}
