use serde_json::{Value, json};

use super::*;

#[test]
fn gate_c12_a_failure_has_exactly_six_fields_and_fixed_wording() {
    for reason in ReasonCode::ALL {
        let Value::Object(shown) = serde_json::to_value(ToolFailure::new("demo.tool", *reason)).unwrap() else { panic!() };
        let fields: Vec<_> = shown.keys().map(String::as_str).collect();
        assert_eq!(fields, ["action", "message", "reason_code", "remediation", "retryable", "status"], "{reason}");
        assert_eq!(shown["action"], "demo.tool");
        assert_eq!(shown["reason_code"], reason.as_str());
        assert!(CallStatus::ALL.iter().any(|status| shown["status"] == status.as_str()), "{reason}");
        for wording in ["message", "remediation"] {
            assert!(shown[wording].as_str().is_some_and(|text| text.ends_with('.') && text.len() > 10), "{reason}: {wording}");
        }
    }
    assert_eq!(
        serde_json::to_value(ToolFailure::new("demo.external_write", ReasonCode::ApprovalDenied)).unwrap(),
        json!({
            "status": "denied",
            "action": "demo.external_write",
            "reason_code": "approval_denied",
            "message": "A person denied this call.",
            "retryable": false,
            "remediation": "Do not ask for the same again; go on without it.",
        }),
    );
}

#[test]
fn what_was_denied_or_may_have_happened_is_never_called_retryable() {
    for reason in ReasonCode::ALL.iter().filter(|reason| reason.status() != CallStatus::Failed) {
        assert!(!reason.is_retryable(), "{reason}");
    }
}
