//! Requests as they should not be, one by one: each is refused where it is wrong, or stored as it is.

use baton_api::{Access, Takes, table};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::events_proxy::Proxy;
use crate::events_wire::Wire;
use crate::server_wire::{answer, request};
use crate::support::{Caller, TestApp, id};

const MEBIBYTE: usize = 1 << 20;

#[tokio::test]
async fn case_c6_a_hostile_last_event_id_is_refused_or_the_start() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("noop").await;
    app.work().await;
    let path = format!("/v1/runs/{run_id}/events");
    let send = async |values: &[&str]| {
        let mut headers = String::from("accept: text/event-stream\r\n");
        for value in values {
            headers += &format!("last-event-id: {value}\r\n");
        }
        answer(&app.http, request(&format!("GET {path}"), &headers, "")).await.unwrap()
    };
    let whole = send(&[]).await;
    let events = |body: &[u8]| String::from_utf8_lossy(body).matches("\nid: ").count();
    for start in ["", "-1", "0", "  "] {
        let again = send(&[start]).await;
        assert_eq!((again.status, events(&again.body)), (200, events(&whole.body)), "{start:?}");
    }
    for malformed in ["abc", "1e3", "+5", "5 5", "0x1", "-2", "1.0", "\u{0665}"] {
        let refused = send(&[malformed]).await;
        assert_eq!((refused.status, refused.code().as_deref()), (400, Some("malformed_request")), "{malformed:?}");
    }
    assert_eq!(send(&["1", "2"]).await.status, 400);
    for ahead in ["1000", "9223372036854775807", "9223372036854775808", "99999999999999999999"] {
        let refused = send(&[ahead]).await;
        assert_eq!((refused.status, refused.code().as_deref()), (409, Some("conflict")), "{ahead}");
    }
    app.finish().await;
}

#[tokio::test]
async fn case_c20_a_stream_speaks_while_its_first_page_is_read() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("noop").await;
    // The log cannot be read, until this ends.
    let mut lock = app.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE events IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let mut wire = Wire::open(&app.http, run_id, None).await;
    wire.until_heartbeats(2).await;
    assert_eq!(wire.sequences(), [] as [i64; 0]);
    assert_eq!(wire.frames()[0].comment.as_deref(), Some("open"));
    lock.rollback().await.unwrap();
    wire.until_sequence(3).await;
    drop(wire);
    app.work().await;
    app.finish().await;
}

/// What the same stale cursor is answered with is the same each time: who drops what it has already had misses nothing.
#[tokio::test]
async fn case_c16_a_stale_cursor_is_answered_with_the_same_rows_each_time() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("work").await;
    app.work().await;
    let mut answers = Vec::new();
    for _ in 0..3 {
        let mut wire = Wire::open(&app.http, run_id, Some(4)).await;
        wire.until_end().await;
        answers.push(wire.frames().into_iter().filter_map(|frame| Some((frame.id?, frame.data))).collect::<Vec<_>>());
    }
    assert!(answers[0].len() > 5 && answers[0].iter().all(|(sequence, _)| *sequence > 4), "{:?}", answers[0]);
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    app.finish().await;
}

/// Never an empty stream that looks whole: a farewell, and the client comes back after `retry`.
#[tokio::test]
async fn case_c9_a_replay_that_fails_says_so_and_goes_on_when_it_can() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("noop").await;
    app.work().await;
    let rename = async |from: &str, to: &str| {
        let statement = sqlx::AssertSqlSafe(format!("ALTER TABLE {from} RENAME TO {to}"));
        sqlx::query(statement).execute(&app.pool).await.unwrap();
    };
    rename("events", "events_away").await;
    for cursor in [None, Some(3)] {
        let mut wire = Wire::open(&app.http, run_id, cursor).await;
        wire.until_end().await;
        let frames = wire.frames();
        let farewell = &frames[frames.len() - 1];
        assert!(frames[0].retry.is_some_and(|milliseconds| milliseconds >= 500), "not at once");
        assert_eq!((farewell.event(), farewell.id), ("stream.closing", None));
        assert_eq!(farewell.data.as_ref().unwrap()["last_sequence"], json!(cursor.unwrap_or(0)), "it has come nowhere");
    }
    rename("events_away", "events").await;
    let mut wire = Wire::open(&app.http, run_id, None).await;
    wire.until_end().await;
    assert!(wire.frames().iter().any(crate::support::Frame::is_end));
    app.finish().await;
}

/// Clients go away while what they have asked for is on its way to the database; its two connections are as good as before.
#[tokio::test]
async fn case_a18_requests_that_are_given_up_spoil_no_connection() {
    const INSERT: &str = "INSERT INTO runs";
    let proxy = Proxy::start().await;
    let app = TestApp::start_with(|config| {
        config.database.pool = 2;
        proxy.lead(config);
    })
    .await;
    let mut sessions = Vec::new();
    for _ in 0..20 {
        sessions.push(app.http.create_session("test").await);
    }
    proxy.hold(INSERT);
    let mut given_up = JoinSet::new();
    for session_id in sessions {
        let http = app.http.clone();
        given_up.spawn(async move { http.submit(session_id, "noop").await });
    }
    proxy.holds(INSERT).await;
    given_up.shutdown().await;
    proxy.release(INSERT);

    for _ in 0..20 {
        app.http.start_run("noop").await;
    }
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    assert_eq!(sqlx::query_scalar::<_, i64>(open).fetch_one(&app.pool).await.unwrap(), 0);
    app.work().await;
    app.finish().await;
}

/// Creates a session with this metadata, as text: the status, and the metadata that is read back or the error.
async fn metadata(app: &TestApp, text: &str) -> (StatusCode, Value) {
    let body = format!(r#"{{"agent_id":"test","metadata":{text}}}"#);
    let request = app.http.request(Method::POST, "/v1/sessions").header("Content-Type", "application/json").body(body);
    let response = request.send().await.unwrap();
    let status = response.status();
    let answer: Value = response.json().await.unwrap();
    if status != StatusCode::CREATED {
        return (status, answer["error"].clone());
    }
    let (_, read) = app.http.get(&format!("/v1/sessions/{}", id(&answer["id"]))).await;
    assert_eq!(read["metadata"], answer["metadata"]);
    (status, read["metadata"].clone())
}

async fn refused(app: &TestApp, text: &str, message: &str) {
    let (status, error) = metadata(app, text).await;
    assert_eq!((status, error["code"].as_str()), (StatusCode::BAD_REQUEST, Some("malformed_request")), "{text:.100}: {error}");
    let problem = &error["details"]["errors"][0];
    assert!(problem["path"].is_string() && problem["message"].as_str().unwrap().contains(message), "{text:.100}: {problem}");
}

#[tokio::test]
async fn case_j1_nul_is_refused_and_its_spelling_is_text() {
    let app = TestApp::start().await;
    for text in [r#"{"a":"b\u0000c"}"#, r#"{"a\u0000":1}"#, r#"{"a":[{"b":"\u0000"}]}"#] {
        refused(&app, text, "NUL").await;
    }
    let (_, literal) = metadata(&app, r#"{"a":"\\u0000"}"#).await;
    assert_eq!(literal, json!({"a": "\\u0000"}));
    let session_id = app.http.create_session("test").await;
    let (status, _) = app.http.post(&format!("/v1/sessions/{session_id}/messages"), &crate::support::message("a\0b")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    app.finish().await;
}

#[tokio::test]
async fn case_j4_large_integers_keep_their_digits() {
    let app = TestApp::start().await;
    let text = r#"{"big":9007199254740993,"c":1.0,"e":0.1,"huge":18446744073709551616}"#;
    let (_, kept) = metadata(&app, text).await;
    assert_eq!(kept.to_string(), r#"{"big":9007199254740993,"c":1,"e":0.1,"huge":18446744073709551616}"#);
    for text in [r#"{"d":1e400}"#, r#"{"d":-0}"#, r#"{"d":-0.0}"#] {
        refused(&app, text, "number").await;
    }
    refused(&app, r#"{"d":NaN}"#, "JSON").await;
    app.finish().await;
}

#[tokio::test]
async fn case_j7_nesting_has_a_bound_that_nothing_dies_of() {
    let app = TestApp::start().await;
    // The body's own object, and the metadata's.
    let nested = |depth: usize| format!(r#"{{"a":{}1{}}}"#, "[".repeat(depth - 2), "]".repeat(depth - 2));
    assert_eq!(metadata(&app, &nested(64)).await.0, StatusCode::CREATED);
    for depth in [65, 127, 128, 129, 100_000] {
        refused(&app, &nested(depth), "").await;
    }
    let open = "[".repeat(MEBIBYTE / 2);
    let answer = answer(&app.http, request("POST /v1/sessions", "content-type: application/json\r\n", &open)).await.unwrap();
    assert_eq!(answer.status, 400);
    refused(&app, r#"{"a":1,"a":2}"#, "the same").await;
    app.finish().await;
}

#[tokio::test]
async fn case_j11_a_body_has_a_bound_announced_or_not() {
    let app = TestApp::start().await;
    let json = "content-type: application/json\r\n";
    let large = "x".repeat(2 * MEBIBYTE);
    let announced = answer(&app.http, request("POST /v1/sessions", json, &large)).await.unwrap();
    assert_eq!((announced.status, announced.code().as_deref()), (413, Some("payload_too_large")));
    let chunked = format!(
        "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{json}transfer-encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
        large.len()
    );
    assert_eq!(answer(&app.http, chunked).await.unwrap().status, 413);
    // As much as may be, and a little more, of what the content may be.
    let session_id = app.http.create_session("test").await;
    let path = format!("/v1/sessions/{session_id}/messages");
    let (status, _) = app.http.post(&path, &crate::support::message(&"x".repeat(200_001))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (status, _) = app.http.post(&path, &crate::support::message(&"x".repeat(199_900))).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    app.work().await;
    app.finish().await;
}

#[tokio::test]
async fn every_route_refuses_a_query_and_a_field_that_it_does_not_know() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("publish news").await;
    app.work().await;
    let approvals = app.http.open_approvals(run_id).await;
    let session_id = id(&app.http.run(run_id).await["session_id"]);
    for route in table() {
        let named = [("{session_id}", session_id), ("{run_id}", run_id), ("{approval_id}", id(&approvals[0]["id"]))];
        let path = named.iter().fold(route.path.to_owned(), |path, (name, id)| path.replace(name, &id.to_string()));
        let path = path.replace("{agent_id}", "test");
        if path.contains('{') {
            continue; // an artifact: there is none, which is said first
        }
        let send = async |path: &str, body: Option<Value>| {
            let request = app.http.request(route.method.clone(), path);
            let response = body.iter().fold(request, reqwest::RequestBuilder::json).send().await.unwrap();
            let status = response.status();
            (status, response.text().await.unwrap())
        };
        let body = (route.takes == Takes::Json).then(|| json!({}));
        let (status, text) = send(&format!("{path}?unknown=1"), body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{} {path}: {text}", route.method);
        assert!(text.contains(r#""path":"unknown""#), "{} {path}: {text}", route.method);
        let (status, text) = send(&path, Some(json!({"unknown": 1}))).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{} {path}: {text}", route.method);
        assert!(route.takes == Takes::Nothing || text.contains("unknown"), "{} {path}: {text}", route.method);
        // What is not there is said before what is wrong.
        if route.access != Access::Public && path.contains(&session_id.to_string()) {
            let elsewhere = path.replace(&session_id.to_string(), &Uuid::nil().to_string());
            let body = (route.takes == Takes::Json).then(|| json!({"unknown": 1}));
            assert_eq!(send(&format!("{elsewhere}?unknown=1"), body).await.0, StatusCode::NOT_FOUND, "{} {path}", route.method);
        }
    }
    app.http.resolve_all(run_id, "deny").await;
    app.work().await;
    app.finish().await;
}

#[tokio::test]
async fn a_trace_is_stored_where_it_is_one() {
    let app = TestApp::start().await;
    let http = app.http.with_caller(Caller::new("a", "one"));
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (sent, stored) in [(trace, Some(trace)), ("00-x", None), (&trace.to_uppercase(), None)] {
        let path = format!("/v1/sessions/{}/messages", http.create_session("test").await);
        let request = http.request(Method::POST, &path).header("traceparent", sent).json(&crate::support::message("noop"));
        let run: Value = request.send().await.unwrap().json().await.unwrap();
        let kept: Option<String> = sqlx::query_scalar("SELECT traceparent FROM runs WHERE id = $1")
            .bind(id(&run["run_id"]))
            .fetch_one(&app.pool)
            .await
            .unwrap();
        assert_eq!(kept.as_deref(), stored, "{sent}");
    }
    app.work().await;
    app.finish().await;
}

/// A time zone can push what RFC 3339 can write out of what the database can hold.
#[tokio::test]
async fn a_time_beyond_the_last_year_is_refused() {
    let app = TestApp::start().await;
    for parameter in ["created_after", "created_before"] {
        for (time, status) in [
            ("9999-12-31T23:59:59-00:01", 400),
            ("9999-12-31T23:59:59-23:59", 400),
            ("9999-12-31T23:59:59Z", 200),
            ("0000-01-01T00:00:00Z", 200),
        ] {
            let (answered, body) = app.http.get(&format!("/v1/runs?{parameter}={time}")).await;
            assert_eq!(answered.as_u16(), status, "{parameter}={time}: {body}");
        }
    }
    for query in ["limit=%2B1", "limit=1e1", "limit=0", "limit=-1", "limit= 1"] {
        assert_eq!(app.http.get(&format!("/v1/runs?{query}")).await.0, StatusCode::BAD_REQUEST, "{query}");
    }
    app.finish().await;
}
