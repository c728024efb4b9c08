//! What stops a run that does not stop by itself, and what a model's faults do.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Follower, TestApp, eventually, id};

async fn submit_with(app: &TestApp, text: &str, limits: Value) -> Uuid {
    let session_id = app.http.create_session("test").await;
    let body = json!({"content": [{"type": "text", "text": text}], "limits": limits});
    let (status, run) = app.http.post(&format!("/v1/sessions/{session_id}/messages"), &body).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{run}");
    id(&run["run_id"])
}

/// How a run ends: its status, and its reason or its answer.
async fn check(app: &TestApp, text: &str, limits: Value, expected: (&str, &str)) {
    let run_id = submit_with(app, text, limits).await;
    app.work().await;
    let run = app.http.run(run_id).await;
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    let got = run["failure"]["reason"].as_str().map_or_else(|| follower.answer(), str::to_owned);
    assert_eq!((run["status"].as_str().unwrap(), got.as_str()), expected, "{text}");
}

#[tokio::test]
async fn each_limit_stops_a_run_at_its_boundary() {
    let app = TestApp::start().await;
    check(&app, "loop", json!({}), ("COMPLETED", "the end")).await;
    check(&app, "loop", json!({"max_steps": 4}), ("FAILED", "max_steps_exceeded")).await;
    check(&app, "loop", json!({"max_steps": 5}), ("COMPLETED", "the end")).await;
    check(&app, "loop", json!({"max_model_calls": 4}), ("FAILED", "budget_exceeded")).await;
    check(&app, "loop", json!({"max_tool_calls": 3}), ("FAILED", "budget_exceeded")).await;
    check(&app, "loop", json!({"max_tool_calls": 4}), ("COMPLETED", "the end")).await;
    check(&app, "pause", json!({"deadline_seconds": 1}), ("FAILED", "deadline_exceeded")).await;
    app.finish().await;
}

#[tokio::test]
async fn a_limit_is_clamped_to_the_agents() {
    let app = TestApp::start().await;
    let run_id = submit_with(&app, "noop", json!({"max_steps": 1_000_000})).await;
    assert_eq!(app.http.run(run_id).await["limits"]["max_steps"], 32);
    app.work().await;
    app.finish().await;
}

#[tokio::test]
async fn a_models_faults_end_as_the_rules_say() {
    let app = TestApp::start().await;
    for (text, expected) in [
        ("transient twice", ("COMPLETED", "recovered")),
        ("transient for ever", ("FAILED", "model_permanent_error")),
        ("permanent", ("FAILED", "model_permanent_error")),
        ("malformed", ("FAILED", "model_protocol_error")),
        ("empty", ("FAILED", "empty_model_turn")),
        ("cut once", ("COMPLETED", "a text that is cut in the middle")),
        ("bad arguments", ("COMPLETED", "went on")),
        ("cut off", ("COMPLETED", "too long")),
        ("cut off with a call", ("COMPLETED", "went on")),
        ("no script says this", ("FAILED", "model_permanent_error")),
    ] {
        check(&app, text, json!({}), expected).await;
    }
    app.finish().await;
}

#[tokio::test]
async fn a_run_that_nobody_executes_is_failed_at_its_deadline() {
    let app = TestApp::start().await;
    let run_id = submit_with(&app, "noop", json!({"deadline_seconds": 1})).await;
    sqlx::query("UPDATE runs SET deadline_at = now() - interval '1 second' WHERE id = $1")
        .bind(run_id)
        .execute(&app.pool)
        .await
        .unwrap();
    app.worker.sweep().await.unwrap();
    let run = app.http.run(run_id).await;
    assert_eq!((&run["status"], &run["failure"]["reason"]), (&json!("FAILED"), &json!("deadline_exceeded")));
    app.finish().await;
}

#[tokio::test]
async fn case_b5_a_run_that_loses_its_workers_too_often_fails() {
    let app = TestApp::start_with(|config| {
        config.worker.lease = Duration::from_secs(2);
        config.worker.renew = Duration::from_secs(1);
    })
    .await;
    let run_id = submit_with(&app, "wait 60", json!({})).await;
    for _ in 0..3 {
        let worker = app.another_worker(baton_core::fault::Faults::default()).await;
        sqlx::query("UPDATE runs SET scheduled_for = NULL WHERE id = $1").bind(run_id).execute(&app.pool).await.unwrap();
        let execution = tokio::spawn(async move { worker.tick().await.unwrap() });
        app.http.run_in(run_id, "RUNNING").await;
        execution.abort();
        app.expire_workers().await;
        // A row that is being written at that moment is left to the next pass.
        eventually("the run has lost its worker", || async {
            app.worker.sweep().await.unwrap();
            (app.http.run(run_id).await["status"] != "RUNNING").then_some(())
        })
        .await;
    }
    let run = app.http.run(run_id).await;
    assert_eq!((&run["status"], &run["failure"]["reason"]), (&json!("FAILED"), &json!("lease_lost_too_often")));
    app.finish().await;
}
