//! Questions and their answers: one question has one answer, whoever gives it by which way, and no run waits for ever.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use baton_core::execution::maintenance::Swept;
use futures::future::join_all;
use nix::sys::signal::Signal;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Asked, Follower, Http, RealApp, TestApp, id, message, within};

/// A run that asks, in its session, and its question.
async fn asked(app: &TestApp) -> (Uuid, Uuid, Uuid) {
    let run_id = app.http.start_run("ask").await;
    app.work().await;
    let run = app.http.run_in(run_id, "WAITING_FOR_USER").await;
    (run_id, id(&run["session_id"]), id(&run["waiting_for"]["question_id"]))
}

/// What was delivered, by the log.
async fn delivered(app: &TestApp, run_id: Uuid) -> Vec<String> {
    let query = "SELECT body::jsonb #>> '{content,0,text}' FROM events WHERE run_id = $1 AND type = 'user.input.delivered' ORDER BY sequence";
    sqlx::query_scalar(query).bind(run_id).fetch_all(&app.pool).await.unwrap()
}

fn is_conflict(answer: &(StatusCode, Value), reason: &str) {
    assert_eq!((answer.0, &answer.1["error"]["details"]["reason"]), (StatusCode::CONFLICT, &json!(reason)), "{}", answer.1);
}

fn is_in_no_state(answer: &(StatusCode, Value), status: &str) {
    let code = &answer.1["error"]["code"];
    assert_eq!((answer.0, code), (StatusCode::CONFLICT, &json!("invalid_state_transition")), "{}", answer.1);
    assert_eq!(answer.1["error"]["details"], json!({"status": status}));
}

async fn send(http: &Http, session_id: Uuid, text: &str, key: Option<&str>) -> (StatusCode, bool, Value) {
    let mut request = http.request(Method::POST, &format!("/v1/sessions/{session_id}/messages")).json(&message(text));
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key);
    }
    let response = request.send().await.unwrap();
    let replayed = response.headers().contains_key("Idempotency-Replayed");
    (response.status(), replayed, response.json().await.unwrap())
}

#[tokio::test]
async fn the_same_answer_again_is_accepted_and_another_is_not() {
    let app = TestApp::start().await;
    let (run_id, session_id, question_id) = asked(&app).await;
    let named = |text: &str| json!({"content": [{"type": "text", "text": text}], "question_id": question_id});
    let path = format!("/v1/runs/{run_id}/input");
    let accepted = app.http.input(run_id, "blue").await;
    let view = |status: &str| json!({"run_id": run_id, "session_id": session_id, "status": status});
    assert_eq!(accepted, (StatusCode::ACCEPTED, view("QUEUED")));
    assert_eq!(app.http.input(run_id, "blue").await, accepted);
    assert_eq!(app.http.post(&path, &named("blue")).await, accepted);
    is_conflict(&app.http.input(run_id, "red").await, "question_already_answered");
    is_conflict(&app.http.post(&path, &named("red")).await, "question_already_answered");
    assert_eq!(delivered(&app, run_id).await, ["blue"]);

    // Long after, too.
    app.work().await;
    assert_eq!(app.http.post(&path, &named("blue")).await, (StatusCode::ACCEPTED, view("COMPLETED")));
    is_conflict(&app.http.post(&path, &named("red")).await, "question_already_answered");
    let mut follower = Follower::new(&app.http, run_id);
    follower.follow_to_end().await;
    assert_eq!(follower.answer(), "You said blue.");
    app.finish().await;
}

#[tokio::test]
async fn of_twenty_different_answers_one_is_delivered() {
    let app = TestApp::start().await;
    let (run_id, ..) = asked(&app).await;
    let texts: Vec<String> = (0..20).map(|number| format!("answer {number}")).collect();
    let answers = join_all(texts.iter().map(|text| app.http.input(run_id, text))).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().zip(&texts).partition(|(answer, _)| answer.0 == StatusCode::ACCEPTED);
    assert_eq!(won.len(), 1, "{answers:?}");
    lost.iter().for_each(|(answer, _)| is_conflict(answer, "question_already_answered"));
    assert_eq!(delivered(&app, run_id).await, [won[0].1.as_str()]);
    app.work().await;
    assert_eq!(app.http.run(run_id).await["status"], "COMPLETED");
    app.finish().await;
}

#[tokio::test]
async fn a_message_to_a_run_that_asks_is_its_answer() {
    let app = TestApp::start().await;
    let (run_id, session_id, _) = asked(&app).await;
    let (status, replayed, routed) = send(&app.http, session_id, "blue", Some("key")).await;
    assert_eq!((status, replayed), (StatusCode::ACCEPTED, false));
    assert_eq!(routed, json!({"run_id": run_id, "session_id": session_id, "status": "QUEUED"}));
    assert_eq!(send(&app.http, session_id, "blue", Some("key")).await, (StatusCode::OK, true, routed.clone()));
    let (status, _, reused) = send(&app.http, session_id, "red", Some("key")).await;
    is_conflict(&(status, reused), "idempotency_key_reused");
    // Without its key it is a new message, and the run waits no more.
    let (status, _, busy) = send(&app.http, session_id, "blue", None).await;
    is_conflict(&(status, busy), "active_run_exists");
    assert_eq!(delivered(&app, run_id).await, ["blue"]);
    app.work().await;
    let (status, replayed, again) = send(&app.http, session_id, "blue", Some("key")).await;
    assert_eq!((status, replayed, &again["status"]), (StatusCode::OK, true, &json!("COMPLETED")));
    let runs: i64 = sqlx::query_scalar("SELECT count(*) FROM runs").fetch_one(&app.pool).await.unwrap();
    assert_eq!(runs, 1);
    app.finish().await;
}

#[tokio::test]
async fn twenty_messages_with_one_key_are_one_answer() {
    let app = TestApp::start().await;
    let (run_id, session_id, _) = asked(&app).await;
    let sent = join_all((0..20).map(|_| send(&app.http, session_id, "blue", Some("key")))).await;
    assert!(sent.iter().all(|(_, _, body)| body["run_id"] == json!(run_id)), "{sent:?}");
    assert_eq!(sent.iter().filter(|(status, replayed, _)| (*status, *replayed) == (StatusCode::ACCEPTED, false)).count(), 1);
    assert_eq!(sent.iter().filter(|(status, replayed, _)| (*status, *replayed) == (StatusCode::OK, true)).count(), 19);
    assert_eq!(delivered(&app, run_id).await, ["blue"]);
    app.work().await;
    app.finish().await;
}

#[tokio::test]
async fn a_message_is_no_answer_where_that_is_off_or_an_approval_is_waited_for() {
    let app = TestApp::start_with(|config| config.sessions.route_input = false).await;
    let (run_id, session_id, _) = asked(&app).await;
    let (status, _, body) = send(&app.http, session_id, "blue", None).await;
    is_conflict(&(status, body.clone()), "active_run_exists");
    assert_eq!(body["error"]["details"]["run_status"], "WAITING_FOR_USER");
    assert_eq!(app.http.input(run_id, "blue").await.0, StatusCode::ACCEPTED);
    app.work().await;
    app.finish().await;

    let app = TestApp::start().await;
    let run_id = app.http.start_run("publish news").await;
    app.work().await;
    let session_id = id(&app.http.run_in(run_id, "WAITING_FOR_APPROVAL").await["session_id"]);
    let (status, _, body) = send(&app.http, session_id, "approve", Some("key")).await;
    is_conflict(&(status, body.clone()), "active_run_exists");
    assert_eq!(body["error"]["details"]["run_status"], "WAITING_FOR_APPROVAL");
    is_in_no_state(&app.http.input(run_id, "approve").await, "WAITING_FOR_APPROVAL");
    assert_eq!(app.http.cancel(run_id).await.0, StatusCode::OK);
    // A refused message keeps no key.
    assert_eq!(send(&app.http, session_id, "noop", Some("key")).await.0, StatusCode::ACCEPTED);
    app.work().await;
    app.finish().await;
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_its_run_and_not_its_session() {
    let app = TestApp::start().await;
    let (run_id, session_id, question_id) = asked(&app).await;
    app.expire_in(Asked::Question, question_id, -1).await;
    // Refused although maintenance has not come by; so is a message.
    is_in_no_state(&app.http.input(run_id, "blue").await, "WAITING_FOR_USER");
    let (status, _, body) = send(&app.http, session_id, "blue", None).await;
    is_conflict(&(status, body), "active_run_exists");

    let swept = app.worker.sweep().await.unwrap().unwrap();
    assert_eq!(swept, Swept { runs_failed: 1, ..Swept::default() });
    let run = app.http.run(run_id).await;
    assert_eq!((&run["status"], &run["failure"]["reason"]), (&json!("FAILED"), &json!("input_deadline_exceeded")));
    is_in_no_state(&app.http.input(run_id, "blue").await, "FAILED");
    assert!(delivered(&app, run_id).await.is_empty());
    let next = app.http.submit(session_id, "noop").await;
    app.work().await;
    assert_eq!(app.http.run(next).await["status"], "COMPLETED");
    app.finish().await;
}

#[tokio::test]
async fn the_deadline_of_a_run_goes_on_while_it_waits() {
    let app = TestApp::start().await;
    let (asking, session_id, _) = asked(&app).await;
    let publishing = app.http.start_run("publish news").await;
    app.work().await;
    let approvals = app.http.open_approvals(publishing).await;
    sqlx::query("UPDATE runs SET deadline_at = now() - interval '1 second'").execute(&app.pool).await.unwrap();
    assert_eq!(app.worker.sweep().await.unwrap().unwrap().runs_failed, 2);
    for run_id in [asking, publishing] {
        let run = app.http.run(run_id).await;
        assert_eq!((&run["status"], &run["failure"]["reason"]), (&json!("FAILED"), &json!("deadline_exceeded")));
    }
    is_in_no_state(&app.http.input(asking, "blue").await, "FAILED");
    is_in_no_state(&app.http.resolve(&approvals[0], "approve_once").await, "CANCELLED");
    let next = app.http.submit(session_id, "noop").await;
    app.work().await;
    assert_eq!(app.http.run(next).await["status"], "COMPLETED");
    app.finish().await;
}

#[tokio::test]
async fn an_answer_to_no_question_of_the_run_is_refused() {
    let app = TestApp::start().await;
    let (run_id, ..) = asked(&app).await;
    let (_, _, of_another) = asked(&app).await;
    for question_id in [of_another, Uuid::from_u128(1)] {
        let body = json!({"content": [{"type": "text", "text": "blue"}], "question_id": question_id});
        let (status, error) = app.http.post(&format!("/v1/runs/{run_id}/input"), &body).await;
        assert_eq!((status, &error["error"]["code"]), (StatusCode::NOT_FOUND, &json!("not_found")));
    }
    assert_eq!(app.http.cancel(run_id).await.0, StatusCode::OK);
    is_in_no_state(&app.http.input(run_id, "blue").await, "CANCELLED");
    app.finish().await;
}

#[tokio::test]
async fn an_answer_whose_wake_up_is_lost_resumes_its_run() {
    /// A poll, and two busy cores; there are no notifications.
    const RESUMED_WITHIN: Duration = Duration::from_secs(3);

    let mut app = RealApp::start(&[("BATON_DATABASE__NOTIFICATIONS", "off"), ("BATON_FAULTS", "AfterInput=kill")]).await;
    let _worker = app.start_worker().await;
    let run_id = app.http.start_run("ask").await;
    app.http.run_in(run_id, "WAITING_FOR_USER").await;
    let request = app.http.request(Method::POST, &format!("/v1/runs/{run_id}/input")).json(&message("blue"));
    assert!(request.send().await.is_err(), "nobody answers");
    assert_eq!(app.api.as_mut().unwrap().ended().await.signal(), Some(Signal::SIGKILL as i32));
    within(RESUMED_WITHIN, "the run has gone on", || async {
        let status = sqlx::query_scalar::<_, String>("SELECT status FROM runs WHERE id = $1").bind(run_id);
        (status.fetch_one(&app.pool).await.unwrap() == "COMPLETED").then_some(())
    })
    .await;
    app.restart_api().await;
    // Whoever was not answered asks again.
    assert_eq!(app.http.input(run_id, "blue").await.0, StatusCode::ACCEPTED);
    is_conflict(&app.http.input(run_id, "red").await, "question_already_answered");
    app.finish().await;
}
