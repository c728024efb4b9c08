//! Approvals and input as HTTP refuses them: the order of the checks, and what a body may hold.

use baton_core::Scope;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Caller, Http, TestApp, message};

const STRANGE: &str = "01900000-0000-7000-8000-000000000000";

/// The same caller, with these scopes only.
fn with_scopes(http: &Http, scopes: &[Scope]) -> Http {
    http.with_caller(Caller { scopes: Some(scopes.to_vec()), ..Caller::new("dev", "dev") })
}

async fn refused(http: &Http, path: &str, body: &Value, expected: (StatusCode, &str)) -> Value {
    let (status, answer) = http.post(path, body).await;
    assert_eq!((status, answer["error"]["code"].as_str().unwrap()), expected, "{path} {body}: {answer}");
    answer["error"]["details"].clone()
}

#[tokio::test]
async fn approvals_are_refused_in_the_order_of_the_checks() {
    let app = TestApp::start().await;
    let (resolve, nonsense) = (format!("/v1/approvals/{STRANGE}/resolve"), json!({"decision": "expired", "resolved_by": "me"}));

    let reader = with_scopes(&app.http, &[Scope::ApprovalRead]);
    refused(&reader, &resolve, &nonsense, (StatusCode::FORBIDDEN, "authorization_error")).await;
    let resolver = with_scopes(&app.http, &[Scope::ApprovalResolve]);
    for path in ["/v1/approvals".to_owned(), format!("/v1/approvals/{STRANGE}")] {
        assert_eq!(resolver.get(&path).await.0, StatusCode::FORBIDDEN, "{path}");
    }

    // What is not there is 404, however wrong the rest of the request is.
    for path in [resolve.as_str(), "/v1/approvals/x/resolve", &format!("{resolve}?unknown=1")] {
        for body in [&nonsense, &json!({"decision": "approve_once"}), &json!({"decision": "deny", "reason": "x".repeat(1_001)})] {
            refused(&resolver, path, body, (StatusCode::NOT_FOUND, "not_found")).await;
        }
    }
    for path in [format!("/v1/approvals/{STRANGE}"), format!("/v1/approvals/{STRANGE}?x=1"), "/v1/approvals/x".into()] {
        assert_eq!(app.http.get(&path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_list_of_approvals_takes_its_filters_and_nothing_else() {
    let app = TestApp::start().await;
    for query in
        ["", "?status=PENDING", "?status=PENDING&status=DENIED&limit=1000", &format!("?run_id={STRANGE}&session_id={STRANGE}")]
    {
        let (status, page) = app.http.get(&format!("/v1/approvals{query}")).await;
        assert_eq!((status, page), (StatusCode::OK, json!({"items": [], "next_cursor": null})), "{query}");
    }
    for query in ["status=pending", "run_id=x", "session_id=", "limit=0", "limit=x", "cursor=x", "tenant=dev"] {
        let (status, answer) = app.http.get(&format!("/v1/approvals?{query}")).await;
        assert_eq!((status, &answer["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("malformed_request")), "{query}");
    }
    app.finish().await;
}

#[tokio::test]
async fn input_is_refused_in_the_order_of_the_checks() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("noop").await;
    let path = |id: Uuid| format!("/v1/runs/{id}/input");
    let bad = [
        json!({}),
        json!({"content": []}),
        json!({"content": "yes"}),
        json!({"content": [{"type": "text", "text": ""}]}),
        json!({"content": [{"type": "text", "text": "yes"}], "question_id": "x"}),
        json!({"content": [{"type": "text", "text": "yes"}], "answered_by": "me"}),
    ];

    let reader = with_scopes(&app.http, &[Scope::RunRead]);
    refused(&reader, &path(run_id), &bad[0], (StatusCode::FORBIDDEN, "authorization_error")).await;

    // Missing, and another's of the same tenant, are not told apart; who may write need not be able to read.
    let writer = with_scopes(&app.http, &[Scope::RunWrite]);
    let stranger = app.http.with_caller(Caller::new("dev", "stranger"));
    for body in bad.iter().chain([&message("yes")]) {
        refused(&writer, &path(STRANGE.parse().unwrap()), body, (StatusCode::NOT_FOUND, "not_found")).await;
        refused(&stranger, &path(run_id), body, (StatusCode::NOT_FOUND, "not_found")).await;
    }
    for body in &bad {
        refused(&writer, &path(run_id), body, (StatusCode::BAD_REQUEST, "malformed_request")).await;
    }

    let unasked = json!({"content": [{"type": "text", "text": "yes"}], "question_id": STRANGE});
    refused(&writer, &path(run_id), &unasked, (StatusCode::NOT_FOUND, "not_found")).await;
    let details = refused(&writer, &path(run_id), &message("yes"), (StatusCode::CONFLICT, "invalid_state_transition")).await;
    assert_eq!(details, json!({"status": "QUEUED"}));
    assert_eq!(app.http.run(run_id).await["waiting_for"], Value::Null);

    app.work().await;
    let details = refused(&writer, &path(run_id), &message("yes"), (StatusCode::CONFLICT, "invalid_state_transition")).await;
    assert_eq!(details, json!({"status": "COMPLETED"}));
    app.finish().await;
}

#[tokio::test]
async fn a_body_must_be_there_and_be_json() {
    let app = TestApp::start().await;
    let run_id = app.http.start_run("noop").await;
    for path in [format!("/v1/runs/{run_id}/input"), format!("/v1/approvals/{STRANGE}/resolve")] {
        let form = app.http.request(Method::POST, &path).body("a=b").send().await.unwrap();
        assert_eq!(form.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{path}");
    }
    let empty = app.http.request(Method::POST, &format!("/v1/runs/{run_id}/input")).send().await.unwrap();
    assert_eq!(empty.status(), StatusCode::BAD_REQUEST);
    app.work().await;
    app.finish().await;
}
