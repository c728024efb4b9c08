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
fn every_code_has_the_status_of_the_table() {
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
