use serde_json::value::RawValue;
use time::OffsetDateTime;

use super::*;
use crate::tools::Risk;

const ID: Uuid = Uuid::from_u128(1);

fn stored(status: ApprovalStatus) -> Stored {
    let at = OffsetDateTime::UNIX_EPOCH;
    let view = ApprovalView {
        id: ID,
        run_id: ID,
        session_id: ID,
        status,
        tool_name: "demo.external_write".into(),
        action_summary: "write".into(),
        arguments: RawValue::from_string("{}".into()).unwrap(),
        risk: Risk::High,
        policy_reason: "it leaves a mark".into(),
        expires_at: at,
        created_at: at,
        resolved_at: None,
        resolved_by: None,
        decision: status.decision(),
    };
    Stored { view, is_due: false, requested_by: "owner".into(), distinct_approver: false }
}

/// What stands in the way: nothing that is an error, or its code with its details.
fn check(stored: &Stored, verdict: Verdict, expected: &Result<Standing, (&str, serde_json::Value)>) {
    let got = judge(stored, "owner", verdict).map_err(|error| (error.code().as_str(), error.details()));
    assert_eq!(&got, expected, "{} {verdict}", stored.view.status);
}

#[test]
fn the_first_decision_stands() {
    use ApprovalStatus::{Approved, Cancelled, Denied, Expired, Pending};
    let already = |decision| {
        Err(("conflict", serde_json::json!({"reason": "approval_already_resolved", "approval_id": ID, "decision": decision})))
    };
    let closed = |status| Err(("invalid_state_transition", serde_json::json!({"status": status})));
    for verdict in [Verdict::ApproveOnce, Verdict::Deny] {
        check(&stored(Pending), verdict, &Ok(Standing::Open));
        check(&stored(Expired), verdict, &closed("EXPIRED"));
        check(&stored(Cancelled), verdict, &closed("CANCELLED"));
        check(&Stored { is_due: true, ..stored(Pending) }, verdict, &closed("EXPIRED"));
    }
    check(&stored(Approved), Verdict::ApproveOnce, &Ok(Standing::Decided));
    check(&stored(Approved), Verdict::Deny, &already("approve_once"));
    check(&stored(Denied), Verdict::Deny, &Ok(Standing::Decided));
    check(&stored(Denied), Verdict::ApproveOnce, &already("deny"));
}

#[test]
fn who_asked_may_deny_and_not_approve_where_the_profile_says_so() {
    let own = Stored { distinct_approver: true, ..stored(ApprovalStatus::Pending) };
    check(&own, Verdict::ApproveOnce, &Err(("authorization_error", serde_json::json!({}))));
    check(&own, Verdict::Deny, &Ok(Standing::Open));
    let of_another = Stored { requested_by: "another".into(), ..own };
    check(&of_another, Verdict::ApproveOnce, &Ok(Standing::Open));
}

#[test]
fn every_decision_of_a_person_is_a_status() {
    for verdict in Verdict::ALL {
        assert_eq!(verdict.status().decision(), Some(Decision::from(*verdict)));
        assert_eq!(verdict.as_str(), Decision::from(*verdict).as_str());
    }
}

#[test]
fn a_body_is_strict() {
    let parse = |text: &str| serde_json::from_str::<ResolveApproval>(text);
    assert_eq!(parse(r#"{"decision":"deny","reason":"no"}"#).unwrap().reason.as_deref(), Some("no"));
    for text in ["{}", r#"{"decision":"expired"}"#, r#"{"decision":"deny","resolved_by":"another"}"#] {
        assert!(parse(text).is_err(), "{text}");
    }
    for (reason, is_good) in [("é".repeat(1_000), true), ("é".repeat(1_001), false), ("\0".into(), false)] {
        let command = ResolveApproval { decision: Verdict::Deny, reason: Some(reason) };
        assert_eq!(command.validate().is_ok(), is_good);
    }
}
