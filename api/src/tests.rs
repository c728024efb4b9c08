//! The checks before a handler, on every route there is. The database is never there: nothing here may ask it.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use axum::routing::get;
use baton_core::agents::Catalogue;
use baton_core::clock::Clock;
use baton_core::config::{Config, Notifications};
use baton_core::db::{self, Role};
use baton_core::fault::Faults;
use baton_core::{Error, Principal, Services};
use futures::future::{BoxFuture, FutureExt};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::*;

/// Knows nobody, or somebody with no scope at all.
#[derive(Debug)]
enum Doorman {
    Nobody,
    Stranger,
}

impl Authenticator for Doorman {
    fn authenticate<'a>(&'a self, _headers: &'a HeaderMap) -> BoxFuture<'a, Result<Principal, Error>> {
        let answer = match self {
            Self::Nobody => Err(Error::Authentication),
            Self::Stranger => Principal::new("tenant", "stranger", []),
        };
        std::future::ready(answer).boxed()
    }
}

fn app(doorman: Doorman) -> Router {
    let mut config = Config::default();
    config.database.url = Some("postgres://nobody@127.0.0.1:1/none".into());
    config.database.notifications = Notifications::Off;
    let pool = db::connect(&config.database, Role::Api).unwrap();
    let clock = Clock::system();
    let services = Services::open(&config, Role::Api, pool, clock.clone(), Catalogue::default(), Faults::from_env()).unwrap();
    let state = ApiState {
        services: Arc::new(services),
        authenticator: Arc::new(doorman),
        clock,
        bind: Bind::Loopback,
        cors_origins: CorsOrigins::default(),
        limits: Arc::new(config.server),
        streams: Streams::new(1),
        shutdown: CancellationToken::new(),
        heartbeat: HEARTBEAT,
    };
    router(state)
}

fn request(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header(header::HOST, "localhost")
}

/// Sends a request, holds the answer to the envelope, and returns it with its code.
async fn refusal(app: &Router, request: Request<Body>) -> (Response<()>, String) {
    let (parts, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let envelope: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(envelope.as_object().unwrap().keys().collect::<Vec<_>>(), ["error"]);
    let error = envelope["error"].as_object().unwrap();
    assert_eq!(error.keys().collect::<Vec<_>>(), ["code", "details", "message", "request_id"]);
    assert_eq!(parts.headers["x-request-id"], error["request_id"].as_str().unwrap());
    (Response::from_parts(parts, ()), error["code"].as_str().unwrap().to_owned())
}

async fn check(app: &Router, request: Request<Body>, status: StatusCode, code: &str) -> Response<()> {
    let wanted = format!("{} {}", request.method(), request.uri());
    let (response, answered) = refusal(app, request).await;
    assert_eq!((response.status(), answered.as_str()), (status, code), "{wanted}");
    response
}

/// The routes that need a credential, with a path that could be theirs, and whether they need a scope too.
fn guarded() -> impl Iterator<Item = (Method, String, bool)> {
    const ID: &str = "01900000-0000-7000-8000-000000000000";
    let guarded = table().into_iter().filter(|route| route.access != Access::Public);
    let concrete = |path: &str| path.replace("{session_id}", ID).replace("{run_id}", ID).replace("{approval_id}", ID);
    guarded.map(move |route| (route.method, concrete(route.path), route.access != Access::Authenticated))
}

#[tokio::test]
async fn a_guarded_route_asks_for_a_credential_and_then_for_its_scope() {
    let (nobody, stranger) = (app(Doorman::Nobody), app(Doorman::Stranger));
    for (method, path, needs_a_scope) in guarded() {
        let bare = || request(method.clone(), &path).body(Body::empty()).unwrap();
        let response = check(&nobody, bare(), StatusCode::UNAUTHORIZED, "authentication_error").await;
        assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Bearer");
        if needs_a_scope {
            check(&stranger, bare(), StatusCode::FORBIDDEN, "authorization_error").await;
        }
    }
}

#[tokio::test]
async fn hosts_origins_and_bodies_are_judged_before_credentials() {
    let app = app(Doorman::Nobody);
    for (method, path, _) in guarded() {
        let foreign = Request::builder().method(method.clone()).uri(&path).header(header::HOST, "example.com");
        check(&app, foreign.body(Body::empty()).unwrap(), StatusCode::MISDIRECTED_REQUEST, "misdirected_request").await;
        let large = request(method, &path).header(header::CONTENT_LENGTH, body::BYTES_MAX + 1);
        check(&app, large.body(Body::empty()).unwrap(), StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large").await;
    }
    let form = request(Method::POST, "/v1/sessions").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    check(&app, form.body("a=b".into()).unwrap(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type").await;
    let foreign = request(Method::POST, "/v1/sessions").header(header::ORIGIN, "https://example.com");
    check(&app, foreign.body(Body::empty()).unwrap(), StatusCode::FORBIDDEN, "authorization_error").await;
    let unwanted = request(Method::GET, "/v1/runs/x").body("{}".into()).unwrap();
    check(&app, unwanted, StatusCode::BAD_REQUEST, "malformed_request").await;
}

#[tokio::test]
async fn what_is_not_there_has_an_envelope_too() {
    let app = app(Doorman::Nobody);
    check(&app, request(Method::GET, "/v1/nothing").body(Body::empty()).unwrap(), StatusCode::NOT_FOUND, "not_found").await;
    let put = request(Method::PUT, "/v1/sessions/x/close").body(Body::empty()).unwrap();
    let response = check(&app, put, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed").await;
    assert_eq!(response.headers()[header::ALLOW], "POST");
}

#[tokio::test]
async fn a_panic_is_answered_and_the_next_request_too() {
    let panicking: Router = Router::new()
        .route("/", get(async || -> StatusCode { panic!("the secret") }))
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(from_fn_with_state(Clock::system(), request_id::assign));
    for _ in 0..2 {
        let request = request(Method::GET, "/").body(Body::empty()).unwrap();
        check(&panicking, request, StatusCode::INTERNAL_SERVER_ERROR, "internal_error").await;
    }
}
