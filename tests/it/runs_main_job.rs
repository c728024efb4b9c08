//! The main job: a message becomes a run, a worker executes it, a client follows it.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::{Follower, RealApp, TestApp, message};

#[tokio::test]
async fn a_message_becomes_a_run_that_is_executed_and_followed() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let run_id = app.http.submit(session_id, "work").await;
    assert_eq!(app.http.run(run_id).await["status"], "QUEUED");

    app.work().await;

    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    follower.assert_exactly_once(&app.pool).await;
    assert_eq!(follower.answer(), "The answer is 1000.");
    assert_eq!(
        follower.events(),
        [
            "user.message.created",
            "run.queued",
            "run.claimed",
            "run.started",
            "model.request.started",
            "model.response.completed",
            "assistant.message.completed",
            "tool.call.proposed",
            "tool.call.proposed",
            "tool.call.authorized",
            "tool.call.authorized",
            "tool.call.started",
            "tool.call.started",
            "tool.call.completed",
            "tool.call.completed",
            "model.request.started",
            "model.response.completed",
            "tool.call.proposed",
            "tool.call.authorized",
            "tool.call.started",
            "tool.call.completed",
            "model.request.started",
            "model.response.completed",
            "assistant.message.completed",
            "run.completed",
        ]
    );
    let run = app.http.run(run_id).await;
    assert_eq!((&run["status"], &run["step_count"], &run["usage"]["tool_calls"]), (&json!("COMPLETED"), &json!(3), &json!(3)));
    app.finish().await;
}

#[tokio::test]
async fn one_session_has_one_unfinished_run() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let run_id = app.http.submit(session_id, "noop").await;
    let path = format!("/v1/sessions/{session_id}/messages");

    let (status, error) = app.http.post(&path, &message("noop")).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(error["error"]["details"], json!({"reason": "active_run_exists", "run_id": run_id, "run_status": "QUEUED"}));

    app.work().await;
    app.http.submit(session_id, "noop").await;
    app.work().await;
    app.finish().await;
}

#[tokio::test]
async fn a_key_replays_what_it_created() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let path = format!("/v1/sessions/{session_id}/messages");
    let send =
        |text: &'static str| app.http.request(Method::POST, &path).header("Idempotency-Key", "k1").json(&message(text)).send();

    let first = send("noop").await.unwrap();
    assert_eq!(first.status(), StatusCode::ACCEPTED);
    let again = send("noop").await.unwrap();
    assert_eq!((again.status(), again.headers()["idempotency-replayed"].to_str().unwrap()), (StatusCode::OK, "true"));
    let other = send("work").await.unwrap();
    assert_eq!(other.status(), StatusCode::CONFLICT);
    assert_eq!(other.json::<serde_json::Value>().await.unwrap()["error"]["details"]["reason"], "idempotency_key_reused");

    app.work().await;
    assert_eq!(send("noop").await.unwrap().json::<serde_json::Value>().await.unwrap()["status"], "COMPLETED");
    app.finish().await;
}

#[tokio::test]
async fn a_session_remembers() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    for (text, answer) in [("remember tulips", "I remember tulips."), ("bad arguments", "went on"), ("noop", "done")] {
        let run_id = app.http.submit(session_id, text).await;
        app.work().await;
        let mut follower = Follower::new(&app.http, run_id);
        follower.follow_to_end().await;
        follower.assert_exactly_once(&app.pool).await;
        assert_eq!(follower.answer(), answer);
    }
    let (_, session) = app.http.get(&format!("/v1/sessions/{session_id}")).await;
    assert_eq!((&session["title"], &session["active_run_id"]), (&json!("remember tulips"), &json!(null)));
    app.finish().await;
}

#[tokio::test]
async fn real_processes_do_the_same() {
    let app = RealApp::start(&[]).await;
    let _worker = app.start_worker().await;
    let run_id = app.http.start_run("slow work").await;
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    follower.assert_exactly_once(&app.pool).await;
    assert_eq!(follower.answer(), "The answer is 1000.");
    assert!(follower.frames.iter().any(|frame| frame.event() == "message.delta"), "the text was streamed");
    app.finish().await;
}
