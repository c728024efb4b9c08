use baton_core::approvals::ApprovalStatus;
use baton_core::events::Decision;
use baton_core::runs::RunStatus;
use baton_core::{Cap, Conflict, Scope};

use super::*;

/// The table of domain.md, in its order.
const TABLE: &[(&str, u16)] = &[
    ("authentication_error", 401),
    ("budget_exceeded", 402),
    ("authorization_error", 403),
    ("deadline_exceeded", 504),
    ("not_found", 404),
    ("run_deadline_exceeded", 504),
    ("conflict", 409),
    ("run_cancelled", 409),
    ("invalid_state_transition", 409),
    ("context_overflow", 422),
    ("concurrency_conflict", 409),
    ("tool_loop_detected", 409),
    ("tool_not_found", 404),
    ("model_transient_error", 503),
    ("tool_validation_error", 422),
    ("model_permanent_error", 502),
    ("tool_policy_denied", 403),
    ("model_protocol_error", 502),
    ("tool_timeout", 504),
    ("sandbox_provision_error", 503),
    ("tool_execution_error", 502),
    ("sandbox_execution_error", 502),
    ("tool_result_invalid", 502),
    ("artifact_storage_error", 503),
    ("approval_required", 409),
    ("malformed_request", 400),
    ("approval_denied", 409),
    ("unsupported_media_type", 415),
    ("approval_expired", 409),
    ("payload_too_large", 413),
    ("rate_limited", 429),
    ("method_not_allowed", 405),
    ("service_unavailable", 503),
    ("misdirected_request", 421),
    ("internal_error", 500),
    ("not_implemented", 501),
];

#[test]
fn gate_a2_every_code_has_the_status_of_the_table() {
    for code in Code::ALL {
        let line = (code.as_str(), status(*code).as_u16());
        assert!(TABLE.contains(&line), "{line:?}");
    }
    assert_eq!(Code::ALL.len(), TABLE.len());
}

async fn rendered(error: Error) -> (Response, Value) {
    let response = render(ApiError::from(error).into_response(), "the-id");
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    (Response::from_parts(parts, Body::empty()), serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn the_envelope_holds_four_fields_and_no_cause() {
    let (response, body) = rendered(Error::internal("SELECT secret FROM table")).await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let expected = serde_json::json!({"error": {"code": "internal_error", "message": "an internal error", "details": {}, "request_id": "the-id"}});
    assert_eq!(body, expected);
}

#[tokio::test]
async fn some_errors_have_a_header() {
    let (response, _) = rendered(Error::Authentication).await;
    assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Bearer");
    let (response, body) = rendered(Error::Unavailable { retry_after_seconds: 7, source: None }).await;
    assert_eq!(response.headers()[header::RETRY_AFTER], "7");
    assert_eq!(body["error"]["details"], serde_json::json!({"retry_after_seconds": 7}));
}

#[tokio::test]
async fn a_panic_is_an_internal_error() {
    let panic = std::panic::catch_unwind(|| panic!("the secret")).unwrap_err();
    let response = render(panicked(panic), "the-id");
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert!(!String::from_utf8_lossy(&body).contains("secret"));
}

/// One of each variant. A new one does not compile in `core` without its code, and belongs here.
fn every_error() -> Vec<(Error, u16)> {
    let id = uuid::Uuid::nil();
    vec![
        (Error::Authentication, 401),
        (Error::Authorization(Scope::RunRead), 403),
        (Error::SelfApproval, 403),
        (Error::ForeignOrigin, 403),
        (Error::NotFound(Resource::Run), 404),
        (Error::Conflict(Conflict::ActiveRun { run_id: id, status: RunStatus::Queued }), 409),
        (Error::Conflict(Conflict::IdempotencyKeyReused), 409),
        (Error::Conflict(Conflict::CursorAhead { head: 1 }), 409),
        (Error::Conflict(Conflict::SessionClosed), 409),
        (Error::Conflict(Conflict::QuestionAlreadyAnswered), 409),
        (Error::Conflict(Conflict::ApprovalAlreadyResolved { approval_id: id, decision: Decision::Deny }), 409),
        (Error::InvalidStateTransition(RunStatus::Completed), 409),
        (Error::ApprovalClosed(ApprovalStatus::Expired), 409),
        (Error::ConcurrencyConflict, 409),
        (Error::malformed("/a", "wrong"), 400),
        (Error::UnsupportedMediaType, 415),
        (Error::PayloadTooLarge { limit_bytes: 1 }, 413),
        (Error::MethodNotAllowed, 405),
        (Error::Misdirected, 421),
        (Error::RateLimited(Cap::Streams), 429),
        (Error::RateLimited(Cap::QueuedRuns), 429),
        (Error::Unavailable { retry_after_seconds: 1, source: None }, 503),
        (Error::internal("the secret"), 500),
    ]
}

#[tokio::test]
async fn gate_a2_every_error_has_one_status_one_envelope_and_its_advice() {
    for (error, status) in every_error() {
        let (code, named) = (error.code().as_str(), format!("{error:?}"));
        let (response, body) = rendered(error).await;
        assert_eq!((response.status().as_u16(), body["error"]["code"].as_str()), (status, Some(code)), "{named}");
        assert_eq!(body["error"].as_object().unwrap().len(), 4, "{named}");
        assert!(body["error"]["details"].is_object(), "{named}");
        let told = body["error"]["details"]["retry_after_seconds"].as_u64().map(|seconds| seconds.to_string());
        let header = response.headers().get(header::RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header, told, "{named}");
        assert_eq!(told.is_some(), matches!(status, 429 | 503), "{named}");
    }
}
