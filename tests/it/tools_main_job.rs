//! Tools, approvals and questions as their users meet them, from the message to the last event.

use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Follower, TestApp};

/// The events after the model's first answer, without those of claims and requests.
async fn story(app: &TestApp, run_id: Uuid) -> Vec<String> {
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    follower.assert_exactly_once(&app.pool).await;
    let told = |event: &&str| {
        !event.starts_with("model.") && !["user.message.created", "run.queued", "run.claimed", "run.started"].contains(event)
    };
    follower.events().into_iter().filter(told).map(str::to_owned).collect()
}

async fn answer(app: &TestApp, run_id: Uuid) -> String {
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    follower.answer()
}

#[tokio::test]
async fn an_approved_effect_happens_once() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("publish news").await;
    app.work().await;
    let approvals = app.http.open_approvals(run_id).await;
    assert_eq!(approvals.len(), 1);
    assert_eq!(approvals[0]["arguments"], json!({"content": "news"}));
    assert_eq!((&approvals[0]["risk"], &approvals[0]["status"]), (&json!("medium"), &json!("PENDING")));
    assert!(app.effects().is_empty(), "nothing before the approval");

    assert_eq!(app.http.resolve(&approvals[0], "approve_once").await.0, StatusCode::OK);
    app.work().await;
    assert_eq!(app.effects().len(), 1);
    assert_eq!(answer(&app, run_id).await, "Published: true");
    assert_eq!(
        story(&app, run_id).await,
        [
            "assistant.message.completed",
            "tool.call.proposed",
            "approval.requested",
            "run.waiting_for_approval",
            "approval.resolved",
            "run.resumed",
            "tool.call.authorized",
            "tool.call.started",
            "tool.call.completed",
            "assistant.message.completed",
            "run.completed",
        ]
    );
    app.finish().await;
}

#[tokio::test]
async fn a_denied_effect_does_not_happen_and_the_model_is_told() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("publish news").await;
    app.work().await;
    app.http.resolve_all(run_id, "deny").await;
    app.work().await;
    assert!(app.effects().is_empty());
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    assert_eq!(answer(&app, run_id).await, "Published: A person denied this call.");
    app.finish().await;
}

#[tokio::test]
async fn a_question_is_answered_and_the_answer_is_the_result() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("ask").await;
    app.work().await;
    let run = app.http.run_in(run_id, "WAITING_FOR_USER").await;
    assert_eq!(run["waiting_for"]["question"], "Which colour?");
    assert_eq!(run["waiting_for"]["choices"], json!(["red", "blue"]));
    assert_eq!(app.http.input(run_id, "blue").await.0, StatusCode::ACCEPTED);
    app.work().await;
    assert_eq!(answer(&app, run_id).await, "You said blue.");
    app.finish().await;
}

#[tokio::test]
async fn every_kind_of_tool_and_every_kind_of_wait_in_one_run() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("everything").await;
    app.work().await;
    app.http.resolve_all(run_id, "approve_once").await;
    app.work().await;
    let (status, answered) = app.http.input(run_id, "yes").await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answered}");
    app.work().await;
    assert_eq!(answer(&app, run_id).await, "Published: true");
    assert_eq!(app.effects().len(), 1);
    let artifacts: Vec<(String, i64)> =
        sqlx::query_as("SELECT name, size_bytes FROM artifacts").fetch_all(&app.pool).await.unwrap();
    assert_eq!(artifacts, [("sum.txt".to_owned(), 4)]);
    app.finish().await;
}

#[tokio::test]
async fn a_model_that_goes_in_circles_is_stopped() {
    let app = TestApp::start().await;
    let circle = app.http.start_run("circle").await;
    app.work().await;
    assert_eq!(failure(&app, circle).await, "tool_loop_detected");

    let insist = app.http.start_run("insist").await;
    for _ in 0..3 {
        app.work().await;
        app.http.resolve_all(insist, "deny").await;
    }
    app.work().await;
    assert_eq!(failure(&app, insist).await, "repeated_denial");
    assert!(app.effects().is_empty());
    app.finish().await;
}

async fn failure(app: &TestApp, run_id: Uuid) -> Value {
    app.http.run(run_id).await["failure"]["reason"].clone()
}
