//! Browsers: the cookie, pages elsewhere, and what those may do.

use std::time::Duration;

use baton_core::clock::Clock;
use reqwest::{Method, Response, StatusCode, header};
use serde_json::json;
use time::OffsetDateTime;

use crate::support::{Http, SigningKey, TestApp, claims, jwt};

const SECRET: &str = "a secret of the tests, and long enough";
const CONSOLE: &str = "https://console.example.com";
const SESSION: &str = "/v1/browser-session";

async fn app() -> TestApp {
    TestApp::start_at(
        Clock::manual(OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()),
        |_| Vec::new(),
        |config| {
            jwt(config, Some(SECRET));
            config.server.cors_origins = vec![CONSOLE.into()];
        },
    )
    .await
}

/// A token for an hour.
fn token(app: &TestApp, role: &str) -> String {
    SigningKey::hs256(SECRET.as_bytes()).token(&claims("acme/ada", app.clock.now(), &json!({"roles": [role]})))
}

async fn with_headers(http: &Http, method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
    let request = http.request(method, path);
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send().await.unwrap()
}

#[tokio::test]
async fn a_token_becomes_a_cookie_that_opens_streams() {
    let app = app().await;
    let token = token(&app, "member");
    let http = app.http.with_token(&token);
    let opened = http.request(Method::POST, SESSION).send().await.unwrap();
    assert_eq!(opened.status(), StatusCode::NO_CONTENT);
    let cookie = opened.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
    assert_eq!(cookie, format!("baton_session={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age=3630"), "loopback: not Secure");
    let cookie = cookie.split(';').next().unwrap();

    let run_id = http.start_run("noop").await;
    app.work().await;
    let path = format!("/v1/runs/{run_id}/events");
    let stream = with_headers(&app.http, Method::GET, &path, &[("cookie", cookie)]).await;
    assert_eq!(stream.status(), StatusCode::OK);
    assert!(stream.text().await.unwrap().contains("event: run.completed"));

    // What is sent with the request wins, also where it is wrong.
    let both = [("cookie", cookie), ("authorization", "Bearer wrong")];
    assert_eq!(with_headers(&app.http, Method::GET, &path, &both).await.status(), StatusCode::UNAUTHORIZED);
    let wrong = [("cookie", "baton_session=wrong")];
    assert_eq!(with_headers(&http, Method::GET, &path, &wrong).await.status(), StatusCode::OK);
    let twice = format!("{cookie}; baton_session=wrong");
    assert_eq!(with_headers(&app.http, Method::GET, &path, &[("cookie", &twice)]).await.status(), StatusCode::UNAUTHORIZED);
    for query in ["access_token", "token", "baton_session", "authorization"] {
        let path = format!("{path}?{query}={token}");
        assert_eq!(app.http.get(&path).await.0, StatusCode::UNAUTHORIZED, "a token in an address is none");
    }

    let closed = with_headers(&app.http, Method::DELETE, SESSION, &[("cookie", cookie)]).await;
    assert_eq!(closed.status(), StatusCode::NO_CONTENT);
    assert_eq!(closed.headers()[header::SET_COOKIE], "baton_session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
    for method in [Method::POST, Method::DELETE] {
        assert_eq!(app.http.request(method, SESSION).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    }
    app.clock.advance(Duration::from_secs(3_630));
    assert_eq!(with_headers(&app.http, Method::GET, &path, &[("cookie", cookie)]).await.status(), StatusCode::UNAUTHORIZED);
    app.finish().await;
}

#[tokio::test]
async fn a_token_that_no_browser_keeps_is_refused_and_dev_mode_has_none() {
    let app = app().await;
    let claims = claims("acme/ada", app.clock.now(), &json!({"more": "x".repeat(4_000)}));
    let large = app.http.with_token(&SigningKey::hs256(SECRET.as_bytes()).token(&claims));
    assert_eq!(large.request(Method::POST, SESSION).send().await.unwrap().status(), StatusCode::BAD_REQUEST);
    app.finish().await;

    let dev = TestApp::start().await;
    for method in [Method::POST, Method::DELETE] {
        assert_eq!(dev.http.request(method, SESSION).send().await.unwrap().status(), StatusCode::NO_CONTENT);
    }
    dev.finish().await;
}

/// In dev mode nobody has a credential; with tokens the browser adds the cookie by itself.
#[tokio::test]
async fn gate_a12_case_g5_a_foreign_origin_changes_nothing() {
    let (dev, jwt) = (TestApp::start().await, app().await);
    let cookie = format!("baton_session={}", token(&jwt, "member"));
    for (app, http) in [(&dev, dev.http.clone()), (&jwt, jwt.http.with_token(&token(&jwt, "member")))] {
        let session_id = http.create_session("test").await;
        let run_id = http.submit(session_id, "noop").await;
        let before = http.run(run_id).await;
        for origin in ["https://evil.example", "null", "http://localhost:1", "https://console.example.com.evil.example"] {
            for (method, path) in [
                (Method::POST, format!("/v1/runs/{run_id}/cancel")),
                (Method::POST, "/v1/sessions".to_owned()),
                (Method::POST, format!("/v1/sessions/{session_id}/messages")),
                (Method::DELETE, SESSION.to_owned()),
                (Method::OPTIONS, "/v1/sessions".to_owned()),
            ] {
                let headers = [("origin", origin), ("cookie", &cookie)];
                let refused = with_headers(&http, method, &path, &headers).await;
                assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{path} from {origin}");
                assert!(!refused.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
            }
            // Reading is the browser's to prevent, and it does: nothing says that the page may.
            let read = with_headers(&http, Method::GET, &format!("/v1/runs/{run_id}"), &[("origin", origin)]).await;
            assert_eq!(read.status(), StatusCode::OK);
            assert!(!read.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
        }
        assert_eq!(http.run(run_id).await, before);
        let sessions: i64 = sqlx::query_scalar("SELECT count(*) FROM sessions").fetch_one(&app.pool).await.unwrap();
        assert_eq!(sessions, 1);
        let own = with_headers(&http, Method::POST, &format!("/v1/runs/{run_id}/cancel"), &[("origin", &http.url)]).await;
        assert_eq!(own.status(), StatusCode::OK, "our own pages may");
    }
    dev.finish().await;
    jwt.finish().await;
}

#[tokio::test]
async fn a_named_page_may_ask_and_read() {
    let app = app().await;
    let http = app.http.with_token(&token(&app, "member"));
    let wanted = [
        ("origin", CONSOLE),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,idempotency-key"),
    ];
    let preflight = with_headers(&app.http, Method::OPTIONS, "/v1/sessions", &wanted).await;
    assert_eq!(preflight.status(), StatusCode::OK);
    let says = |response: &Response, name: header::HeaderName| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(says(&preflight, header::ACCESS_CONTROL_ALLOW_ORIGIN), CONSOLE);
    assert_eq!(says(&preflight, header::ACCESS_CONTROL_ALLOW_CREDENTIALS), "true");
    for (name, word) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "POST"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "DELETE"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "idempotency-key"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "last-event-id"),
    ] {
        let value = says(&preflight, name);
        assert!(value.split(',').any(|listed| listed == word) && !value.contains('*'), "{word}: {value}");
    }

    let body = json!({"agent_id": "test"});
    let created = http.request(Method::POST, "/v1/sessions").header("origin", CONSOLE).json(&body).send().await.unwrap();
    assert_eq!(created.status(), StatusCode::CREATED);
    assert_eq!(says(&created, header::ACCESS_CONTROL_ALLOW_ORIGIN), CONSOLE);
    assert!(says(&created, header::ACCESS_CONTROL_EXPOSE_HEADERS).contains("location"));
    assert!(says(&created, header::VARY).to_lowercase().contains("origin"), "a cache must not hand it to another page");
    let refused = with_headers(&app.http, Method::GET, "/v1/approvals", &[("origin", CONSOLE)]).await;
    assert_eq!(
        (refused.status(), says(&refused, header::ACCESS_CONTROL_ALLOW_ORIGIN)),
        (StatusCode::UNAUTHORIZED, CONSOLE.into())
    );
    app.finish().await;
}
