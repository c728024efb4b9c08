use crate::approvals::{ApprovalStatus, Verdict};
use crate::runs::RunStatus;

#[test]
fn what_a_word_is_not_is_said_in_plain_words() {
    let check = |error: String, expected: &str| assert!(error.starts_with(expected), "{error}");
    check("x".parse::<RunStatus>().unwrap_err().to_string(), "a run status is one of QUEUED, ");
    check("x".parse::<ApprovalStatus>().unwrap_err().to_string(), "an approval status is one of PENDING, ");
    check("x".parse::<Verdict>().unwrap_err().to_string(), "a verdict is one of approve_once, deny");
}
