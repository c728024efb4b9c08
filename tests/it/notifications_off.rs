//! Without notifications everything works, slower: workers poll, heartbeats bring requests to cancel, streams are read anew.

use reqwest::StatusCode;
use serde_json::json;

use crate::support::{Follower, RealApp};

#[tokio::test]
async fn gate_b11_approval_input_and_cancel_work_without_notifications() {
    let app = RealApp::start(&[("BATON_DATABASE__NOTIFICATIONS", "off")]).await;
    let _worker = app.start_worker().await;
    tokio::join!(approve(&app), deny(&app), everything(&app), cancel_while_waiting(&app), cancel_while_running(&app));
    assert_eq!(app.effects().len(), 2, "what was approved, and nothing else");
    app.finish().await;
}

/// The whole run by one stream, which is opened before anything has happened.
async fn ends_with(app: &RealApp, follower: &mut Follower, answer: &str) {
    follower.follow_to_end().await;
    follower.assert_exactly_once(&app.pool).await;
    assert_eq!(follower.answer(), answer);
}

async fn approve(app: &RealApp) {
    let run_id = app.http.start_run("publish news").await;
    let mut follower = Follower::new(&app.http, run_id);
    tokio::join!(ends_with(app, &mut follower, "Published: true"), app.http.resolve_all(run_id, "approve_once"));
}

async fn deny(app: &RealApp) {
    let run_id = app.http.start_run("publish news").await;
    let mut follower = Follower::new(&app.http, run_id);
    tokio::join!(ends_with(app, &mut follower, "Published: A person denied this call."), app.http.resolve_all(run_id, "deny"));
}

async fn everything(app: &RealApp) {
    let run_id = app.http.start_run("everything").await;
    let mut follower = Follower::new(&app.http, run_id);
    let answered = async {
        app.http.resolve_all(run_id, "approve_once").await;
        app.http.run_in(run_id, "WAITING_FOR_USER").await;
        assert_eq!(app.http.input(run_id, "yes").await.0, StatusCode::ACCEPTED);
    };
    tokio::join!(ends_with(app, &mut follower, "Published: true"), answered);
}

async fn cancel_while_waiting(app: &RealApp) {
    for (text, waits) in [("publish news", "WAITING_FOR_APPROVAL"), ("ask", "WAITING_FOR_USER")] {
        let run_id = app.http.start_run(text).await;
        app.http.run_in(run_id, waits).await;
        let (status, run) = app.http.cancel(run_id).await;
        assert_eq!((status, &run["status"], &run["waiting_for"]), (StatusCode::OK, &json!("CANCELLED"), &json!(null)));
        let mut follower = Follower::new(&app.http, run_id);
        follower.follow_to_end().await;
        assert_eq!(follower.events().last(), Some(&"run.cancelled"));
    }
}

async fn cancel_while_running(app: &RealApp) {
    let run_id = app.http.start_run("wait 60").await;
    app.http.run_in(run_id, "RUNNING").await;
    app.http.cancel(run_id).await;
    let run = app.http.run_in(run_id, "CANCELLED").await;
    assert_eq!(run["cancel"]["settled_at"], run["finished_at"]);
}
