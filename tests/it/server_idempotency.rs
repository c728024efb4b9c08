//! Keys under what clients get wrong with them, and what a repeat costs.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::PgPool;

use baton_core::Scope;

use crate::support::{Caller, Http, RealApp, TestApp, TestDatabase, id, message};

struct Answer {
    status: StatusCode,
    is_replay: bool,
    body: Value,
}

/// With these bytes as body and these values of the header.
async fn post(http: &Http, path: &str, keys: &[&[u8]], body: impl Into<String>) -> Answer {
    let mut request = http.request(Method::POST, path).header("Content-Type", "application/json").body(body.into());
    for key in keys {
        request = request.header("Idempotency-Key", *key);
    }
    let response = request.send().await.unwrap();
    let is_replay = response.headers().contains_key("idempotency-replayed");
    Answer { status: response.status(), is_replay, body: response.json().await.unwrap() }
}

async fn stored_keys(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM idempotency_keys").fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn case_e1_another_body_is_a_reuse_before_and_after_the_end_of_the_run() {
    let app = TestApp::start().await;
    let path = format!("/v1/sessions/{}/messages", app.http.create_session("test").await);
    let first = post(&app.http, &path, &[b"key"], message("noop").to_string()).await;
    assert_eq!(first.status, StatusCode::ACCEPTED);
    for _ in 0..2 {
        let other = post(&app.http, &path, &[b"key"], message("work").to_string()).await;
        assert_eq!(other.status, StatusCode::CONFLICT);
        assert_eq!(other.body["error"]["details"], json!({"reason": "idempotency_key_reused"}), "not: try again");
        app.work().await;
    }
    let again = post(&app.http, &path, &[b"key"], message("noop").to_string()).await;
    assert_eq!((again.status, again.is_replay, &again.body["run_id"]), (StatusCode::OK, true, &first.body["run_id"]));
    app.finish().await;
}

#[tokio::test]
async fn case_e5_a_key_belongs_to_one_principal_of_one_tenant() {
    let app = TestApp::start().await;
    let mut sessions = Vec::new();
    for (tenant, principal) in [("a", "one"), ("a", "two"), ("b", "one")] {
        let http = app.http.with_caller(Caller::new(tenant, principal));
        for is_repeat in [false, true] {
            let answer = post(&http, "/v1/sessions", &[b"key"], r#"{"agent_id":"test"}"#).await;
            assert_eq!(answer.is_replay, is_repeat, "{tenant}/{principal}: {}", answer.body);
            sessions.push(id(&answer.body["id"]));
        }
    }
    sessions.dedup();
    assert_eq!(sessions.len(), 3);
    app.finish().await;
}

#[tokio::test]
async fn case_e6_a_key_belongs_to_one_concrete_route() {
    let app = TestApp::start().await;
    let (one, two) = (app.http.create_session("test").await, app.http.create_session("test").await);
    let body = message("noop").to_string();
    let first = post(&app.http, &format!("/v1/sessions/{one}/messages"), &[b"key"], body.as_str()).await;
    assert_eq!(first.status, StatusCode::ACCEPTED);
    for (path, body) in
        [(format!("/v1/sessions/{two}/messages"), body.as_str()), ("/v1/sessions".into(), r#"{"agent_id":"test"}"#)]
    {
        let other = post(&app.http, &path, &[b"key"], body).await;
        assert_eq!(other.status, StatusCode::CONFLICT, "{path}: {}", other.body);
        assert_eq!(other.body["error"]["details"]["reason"], "idempotency_key_reused");
    }
    app.work().await;
    app.finish().await;
}

#[tokio::test]
async fn case_e7_a_repeat_needs_the_scope_that_the_first_needed() {
    let app = TestApp::start().await;
    let http = app.http.with_caller(Caller::new("a", "one"));
    let path = format!("/v1/sessions/{}/messages", http.create_session("test").await);
    let body = message("noop").to_string();
    assert_eq!(post(&http, &path, &[b"key"], body.as_str()).await.status, StatusCode::ACCEPTED);
    let scopes = |scopes: &[Scope]| app.http.with_caller(Caller { scopes: Some(scopes.to_vec()), ..Caller::new("a", "one") });
    let revoked = post(&scopes(&[Scope::RunRead]), &path, &[b"key"], body.as_str()).await;
    assert_eq!(revoked.status, StatusCode::FORBIDDEN);
    assert!(revoked.body["run_id"].is_null());
    let kept = post(&scopes(&[Scope::RunWrite]), &path, &[b"key"], body).await;
    assert!(kept.is_replay);
    app.work().await;
    app.finish().await;
}

#[tokio::test]
async fn case_e9_bodies_that_mean_the_same_are_the_same() {
    let app = TestApp::start().await;
    let body = |metadata: &str| format!(r#"{{"agent_id":"test","metadata":{metadata}}}"#);
    let first = post(&app.http, "/v1/sessions", &[b"key"], body(r#"{"a":1,"b":"\u00e9","c":[1.5,true]}"#)).await;
    assert_eq!(first.status, StatusCode::CREATED, "{}", first.body);
    for same in [
        body(r#"{"b":"\u00e9","c":[1.5,true],"a":1}"#),
        body(" {\n\"a\" : 1.0,\t\"b\":\"é\",\"c\":[1.50,true]} "),
        body(r#"{"a":1e0,"b":"e\u0301","c":[15e-1,true]}"#),
        r#"{"metadata":{"a":1,"b":"é","c":[1.5,true]},"agent_id":"test"}"#.to_owned(),
        format!(" {} ", body(r#"{"\u0061":1,"b":"é","c":[1.5,true]}"#)),
    ] {
        let again = post(&app.http, "/v1/sessions", &[b"key"], same.as_str()).await;
        assert_eq!((again.status, again.is_replay), (StatusCode::OK, true), "{same}: {}", again.body);
    }
    for other in
        [r#"{"a":"1","b":"é","c":[1.5,true]}"#, r#"{"a":1,"b":"é","c":[true,1.5]}"#, r#"{"a":1,"b":"é","c":[1.5,true],"d":null}"#]
    {
        assert_eq!(post(&app.http, "/v1/sessions", &[b"key"], body(other)).await.status, StatusCode::CONFLICT, "{other}");
    }
    let twice = post(&app.http, "/v1/sessions", &[b"key"], body(r#"{"a":1,"a":1}"#)).await;
    assert_eq!(twice.status, StatusCode::BAD_REQUEST);
    let coded = app
        .http
        .request(Method::POST, "/v1/sessions")
        .header("Content-Encoding", "gzip")
        .header("Content-Type", "application/json");
    assert_eq!(coded.body("\u{1f}").send().await.unwrap().status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    app.finish().await;
}

#[tokio::test]
async fn case_e10_without_a_key_nothing_is_repeated_and_none_is_kept() {
    let app = TestApp::start().await;
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let answer = post(&app.http, "/v1/sessions", &[], r#"{"agent_id":"test"}"#).await;
        assert_eq!((answer.status, answer.is_replay), (StatusCode::CREATED, false));
        sessions.push(id(&answer.body["id"]));
    }
    assert_ne!(sessions[0], sessions[1]);
    assert_eq!(stored_keys(&app.pool).await, 0);
    app.finish().await;
}

#[tokio::test]
async fn case_e11_a_key_is_up_to_255_visible_characters_as_they_are() {
    let app = TestApp::start().await;
    let (most, more, huge) = ([b'k'; 255], [b'k'; 256], [b'k'; 10_000]);
    let wrong: &[&[&[u8]]] = &[&[b""], &[&more], &[&huge], &[b"a b"], &["ké".as_bytes()], &[b"k", b"k"]];
    for keys in wrong {
        let answer = post(&app.http, "/v1/sessions", keys, r#"{"agent_id":"test"}"#).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{keys:?}");
        assert_eq!(answer.body["error"]["details"]["errors"][0]["path"], "Idempotency-Key", "{keys:?}");
    }
    // White space around a header's value is not part of it; quotes are.
    for (key, is_replay) in [(&most[..], false), (b"k", false), (b"k ", true), (b"\"k\"", false)] {
        let answer = post(&app.http, "/v1/sessions", &[key], r#"{"agent_id":"test"}"#).await;
        assert_eq!((answer.status.is_success(), answer.is_replay), (true, is_replay), "{:?}", String::from_utf8_lossy(key));
    }
    assert_eq!(stored_keys(&app.pool).await, 3);
    app.finish().await;
}

const REPEATS: i64 = 50;

/// Calls of statements by the product's role, and records that they wrote to Postgres' own log. The API's poll of streams and
/// its counting of the queue come with time, not with requests.
async fn cost(pool: &PgPool) -> (i64, i64) {
    sqlx::query_as(
        "SELECT coalesce(sum(calls), 0)::int8, coalesce(sum(wal_records), 0)::int8
         FROM pg_stat_statements WHERE userid = 'counted'::regrole AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND query ~ '(FROM|INTO|UPDATE) (runs|sessions|idempotency_keys|events)' AND query !~ 'unnest'",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn a_repeated_key_writes_nothing_and_a_page_of_fifty_runs_is_one_statement() {
    let database = TestDatabase::create().await;
    if sqlx::query("CREATE EXTENSION pg_stat_statements").execute(&database.pool).await.is_err() {
        eprintln!("skipped: this Postgres has no pg_stat_statements");
        return database.remove().await;
    }
    sqlx::query("DROP ROLE IF EXISTS counted").execute(&database.pool).await.unwrap();
    sqlx::query("CREATE ROLE counted SUPERUSER LOGIN").execute(&database.pool).await.unwrap();
    let app = RealApp::on(&database.url.replace("postgres@", "counted@"), &[]).await;
    let path = format!("/v1/sessions/{}/messages", app.http.create_session("test").await);
    let body = message("noop").to_string();
    post(&app.http, &path, &[b"key"], body.as_str()).await;
    for _ in 0..49 {
        app.http.start_run("noop").await;
    }
    post(&app.http, "/v1/sessions", &[b"other"], r#"{"agent_id":"test"}"#).await;
    let first = cost(&database.pool).await;
    for _ in 0..REPEATS {
        assert!(post(&app.http, &path, &[b"key"], body.as_str()).await.is_replay);
        assert!(post(&app.http, "/v1/sessions", &[b"other"], r#"{"agent_id":"test"}"#).await.is_replay);
    }
    let repeated = cost(&database.pool).await;
    // A read may tidy up a page that others have written to, once. A repeat that writes does so each time.
    assert!(repeated.1 - first.1 < REPEATS, "{REPEATS} repeats wrote {} records", repeated.1 - first.1);
    let (status, page) = app.http.get("/v1/runs?limit=50").await;
    assert_eq!((status, page["items"].as_array().unwrap().len()), (StatusCode::OK, 50));
    assert_eq!(cost(&database.pool).await.0 - repeated.0, 1, "a page is one statement");
    drop(app);
    database.remove().await;
}
