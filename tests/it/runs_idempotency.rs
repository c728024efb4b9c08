//! One key, one run: under concurrency, after failures, and when the answer was lost.

use futures::future;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Http, RealApp, TestApp, eventually, id, message};

const AT_ONCE: usize = 64;

#[tokio::test]
async fn gate_a9_case_e2_one_key_makes_one_run() {
    let app = RealApp::start(&[]).await;
    let (_other, url) = app.start_api("127.0.0.1:0").await;
    let processes = [app.http.clone(), Http::new(url)];
    let session_id = app.http.create_session("test").await;
    let path = format!("/v1/sessions/{session_id}/messages");

    let body = message("noop");
    let sent = (0..AT_ONCE).map(|number| post(&processes[number % 2], &path, "key", &body));
    let answers = future::join_all(sent).await;
    let run_id = assert_one_creation(&answers, StatusCode::ACCEPTED, "run_id");
    let stored: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM runs").fetch_all(&app.pool).await.unwrap();
    assert_eq!(stored, [run_id]);

    // Another body, through either process.
    for http in &processes {
        let other = post(http, &path, "key", &message("work")).await;
        assert_eq!(
            (other.status, &other.body["error"]["details"]["reason"]),
            (StatusCode::CONFLICT, &json!("idempotency_key_reused"))
        );
    }
    let _worker = app.start_worker().await;
    app.http.run_in(run_id, "COMPLETED").await;
    let late = post(&app.http, &path, "key", &message("noop")).await;
    assert_eq!((late.status, &late.body["status"]), (StatusCode::OK, &json!("COMPLETED")));
    app.finish().await;
}

#[tokio::test]
async fn gate_a9_one_key_makes_one_session() {
    let app = RealApp::start(&[]).await;
    let (_other, url) = app.start_api("127.0.0.1:0").await;
    let processes = [app.http.clone(), Http::new(url)];
    let body = json!({"agent_id": "test"});
    let sent = (0..AT_ONCE).map(|number| post(&processes[number % 2], "/v1/sessions", "key", &body));
    let answers = future::join_all(sent).await;
    let session_id = assert_one_creation(&answers, StatusCode::CREATED, "id");
    let stored: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM sessions").fetch_all(&app.pool).await.unwrap();
    assert_eq!(stored, [session_id]);

    let other = post(&app.http, "/v1/sessions", "key", &json!({"agent_id": "test", "metadata": {"a": "b"}})).await;
    assert_eq!(other.status, StatusCode::CONFLICT);
    app.finish().await;
}

/// One answer says that it created; all others say that they repeat it.
fn assert_one_creation(answers: &[Answer], created: StatusCode, field: &str) -> Uuid {
    let first: Vec<&Answer> = answers.iter().filter(|answer| answer.status == created && !answer.replayed).collect();
    assert_eq!(first.len(), 1, "{answers:?}");
    let replayed = answers.iter().filter(|answer| answer.status == StatusCode::OK && answer.replayed);
    assert_eq!(replayed.count(), answers.len() - 1, "{answers:?}");
    let created = id(&first[0].body[field]);
    assert!(answers.iter().all(|answer| id(&answer.body[field]) == created), "{answers:?}");
    created
}

#[tokio::test]
async fn gate_a9_case_e3_a_failed_submission_keeps_no_key() {
    let app = TestApp::start().await;
    let session_id = app.http.create_session("test").await;
    let path = format!("/v1/sessions/{session_id}/messages");
    app.http.submit(session_id, "noop").await;

    // Each failure with a key of its own; then the same key where it can succeed.
    let busy = post(&app.http, &path, "busy", &message("noop")).await;
    assert_eq!((busy.status, &busy.body["error"]["details"]["reason"]), (StatusCode::CONFLICT, &json!("active_run_exists")));
    let malformed = post(&app.http, &path, "malformed", &json!({"content": []})).await;
    assert_eq!(malformed.status, StatusCode::BAD_REQUEST);
    let nowhere = post(&app.http, &format!("/v1/sessions/{}/messages", Uuid::from_u128(1)), "missing", &message("noop")).await;
    assert_eq!(nowhere.status, StatusCode::NOT_FOUND);
    let unknown_agent = post(&app.http, "/v1/sessions", "agent", &json!({"agent_id": "nobody"})).await;
    assert_eq!(unknown_agent.status, StatusCode::NOT_FOUND);
    let keys: i64 = sqlx::query_scalar("SELECT count(*) FROM idempotency_keys").fetch_one(&app.pool).await.unwrap();
    assert_eq!(keys, 0);

    for key in ["busy", "malformed", "missing", "agent"] {
        app.work().await;
        let answer = post(&app.http, &path, key, &message("noop")).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{key}: {answer:?}");
    }
    app.work().await;
    app.finish().await;
}

#[tokio::test]
async fn case_e3_a_run_whose_answer_was_lost_is_found_by_its_key() {
    // The second submission of each process is its last deed.
    let mut app = RealApp::start(&[("BATON_FAULTS", "AfterSubmit=kill@2")]).await;
    app.http.start_run("noop").await;
    let session_id = app.http.create_session("test").await;
    let path = format!("/v1/sessions/{session_id}/messages");
    let lost = send(&app.http, &path, "key", &message("noop")).await;
    assert!(lost.is_err(), "the process died before it answered");
    app.api.as_mut().unwrap().ended().await;
    app.restart_api().await;

    let found = eventually("the client's connections are new", || async {
        Some(Answer::of(send(&app.http, &path, "key", &message("noop")).await.ok()?).await)
    })
    .await;
    assert_eq!((found.status, found.replayed), (StatusCode::OK, true), "{found:?}");
    let stored: Vec<Uuid> =
        sqlx::query_scalar("SELECT id FROM runs WHERE session_id = $1").bind(session_id).fetch_all(&app.pool).await.unwrap();
    assert_eq!(stored, [id(&found.body["run_id"])]);
    app.finish().await;
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    replayed: bool,
    body: Value,
}

impl Answer {
    async fn of(response: Response) -> Self {
        let replayed = response.headers().get("idempotency-replayed").is_some_and(|value| value == "true");
        Self { status: response.status(), replayed, body: response.json().await.unwrap() }
    }
}

async fn post(http: &Http, path: &str, key: &str, body: &Value) -> Answer {
    Answer::of(send(http, path, key, body).await.unwrap()).await
}

async fn send(http: &Http, path: &str, key: &str, body: &Value) -> reqwest::Result<Response> {
    http.request(Method::POST, path).header("Idempotency-Key", key).json(body).send().await
}
