//! What there may be only so many of: the newest is refused, and told when to come back.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::events_wire::Wire;
use crate::support::{TestApp, eventually, id, message};

#[tokio::test]
async fn case_c29_the_newest_stream_is_refused_and_the_oldest_kept() {
    let app = TestApp::start_with(|config| config.server.max_streams_per_principal = Some(3)).await;
    let run_id = app.http.start_run("noop").await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(Wire::open(&app.http, run_id, None).await);
    }
    for _ in 0..10 {
        let path = format!("/v1/runs/{run_id}/events?nonsense=1");
        let response = app.http.request(Method::GET, &path).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 429, "caps come before queries");
        let advice = response.headers()["retry-after"].to_str().unwrap().to_owned();
        let error: Value = response.json().await.unwrap();
        assert_eq!(error["error"]["code"], "rate_limited");
        assert_eq!(error["error"]["details"]["retry_after_seconds"].to_string(), advice);
    }
    let nowhere = format!("/v1/runs/{}/events", Uuid::nil());
    assert_eq!(app.http.get(&nowhere).await.0.as_u16(), 404, "what is not there comes before caps");
    // A submission whose answer is to be a stream stores nothing that it could not show.
    let session_id = app.http.create_session("test").await;
    let path = format!("/v1/sessions/{session_id}/messages");
    let streaming = app.http.request(Method::POST, &path).header("Accept", "text/event-stream").json(&message("noop"));
    assert_eq!(streaming.send().await.unwrap().status().as_u16(), 429);
    let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM runs").fetch_one(&app.pool).await.unwrap();
    assert_eq!(stored, 1);
    // The oldest lives, and a place comes back.
    streams[0].until_heartbeats(1).await;
    drop(streams.pop());
    eventually("there is a place", || async { (Wire::open(&app.http, run_id, None).await.status.as_u16() == 200).then_some(()) })
        .await;
    drop(streams);
    app.work().await;
    app.finish().await;
}

#[tokio::test]
async fn queued_runs_have_a_cap_that_a_repeat_passes() {
    let app = TestApp::start_with(|config| config.tenant.max_queued_runs = 3).await;
    let session_id = app.http.create_session("test").await;
    let path = format!("/v1/sessions/{session_id}/messages");
    let keyed = || app.http.request(Method::POST, &path).header("Idempotency-Key", "key").json(&message("noop"));
    let first = keyed().send().await.unwrap();
    assert_eq!(first.status().as_u16(), 202);
    let first: Value = first.json().await.unwrap();
    let (mut refused, mut sessions) = (None, Vec::new());
    for _ in 0..5 {
        let session_id = app.http.create_session("test").await;
        let (status, body) = app.http.post(&format!("/v1/sessions/{session_id}/messages"), &message("noop")).await;
        if status.as_u16() == 202 {
            sessions.push(session_id);
        } else {
            refused = Some((status.as_u16(), body));
        }
    }
    let (status, body) = refused.expect("some are refused");
    assert_eq!((status, &body["error"]["code"]), (429, &json!("rate_limited")), "{body}");
    assert!(
        (1..=2).contains(&sessions.len()),
        "{} passed: an estimate may count twice what came while it was made",
        sessions.len()
    );
    let replayed: Value = keyed().send().await.unwrap().json().await.unwrap();
    assert_eq!(id(&replayed["run_id"]), id(&first["run_id"]));
    // A busy session and a missing one say what they always say.
    let (status, _) = app.http.post(&format!("/v1/sessions/{}/messages", sessions[0]), &message("noop")).await;
    assert_eq!(status.as_u16(), 409);
    let (status, _) = app.http.post(&format!("/v1/sessions/{}/messages", Uuid::nil()), &message("noop")).await;
    assert_eq!(status.as_u16(), 404);
    app.work().await;
    let session_id = app.http.create_session("test").await;
    let submit = async || app.http.post(&format!("/v1/sessions/{session_id}/messages"), &message("noop")).await;
    eventually("the count that said full is forgotten", || async { (submit().await.0.as_u16() == 202).then_some(()) }).await;
    app.work().await;
    // What has been executed since the last estimate is not held against the next one.
    for round in 0..20 {
        let (status, body) = submit().await;
        assert_eq!(status.as_u16(), 202, "round {round}: {body}");
        app.work().await;
    }
    app.finish().await;
}
