//! Approvals.

use baton_core::Code;
use baton_core::approvals::{ApprovalStatus, ApprovalView, ResolveApproval};
use serde_json::{Value, json};

use crate::openapi::examples;
use crate::openapi::operation::{Answer, Operation};
use crate::openapi::schemas::{one, page_of};

fn approval(description: &str, status: &str) -> Answer {
    Answer::new(200, description)
        .json(one::<ApprovalView>(), examples::approval(status))
        .links(&["getRun", "explainRun"], "run_id", "$response.body#/run_id")
        .link("getApproval", &[("approval_id", "$response.body#/id")])
        .link("resolveApproval", &[("approval_id", "$response.body#/id")])
}

pub(crate) fn list() -> Operation {
    let id = json!({"type": "string", "format": "uuid"});
    let statuses: Value = ApprovalStatus::ALL.iter().map(|status| status.as_str()).collect();
    let status = json!({"type": "array", "items": {"type": "string", "enum": statuses}});
    Operation::new("approvals", "listApprovals", "Approvals, newest first")
        .query("status", &status, "In one of these; repeated for each.")
        .query("run_id", &id, "Of this run.")
        .query("session_id", &id, "Of this session.")
        .paged()
        .answer(
            Answer::new(200, "A page of approvals.")
                .json(page_of::<ApprovalView>(), examples::page(&examples::approval("PENDING")))
                .links(&["getApproval", "resolveApproval"], "approval_id", "$response.body#/items/0/id"),
        )
}

pub(crate) fn get() -> Operation {
    Operation::new("approvals", "getApproval", "An approval")
        .about("`arguments` are those that the tool will be called with, byte for byte.")
        .answer(approval("The approval.", "PENDING"))
}

pub(crate) fn resolve() -> Operation {
    Operation::new("approvals", "resolveApproval", "Let a call happen once, or deny it")
        .about("The same decision again is a success. Who decides is the caller.")
        .body(one::<ResolveApproval>(), json!({"decision": "approve_once", "reason": "Checked with the editor."}))
        .answer(approval("The approval, resolved.", "APPROVED"))
        .error(Code::Conflict, "`approval_already_resolved`: the other way.")
        .error(Code::InvalidStateTransition, "It has expired or was cancelled; `details.status` says which.")
        .plain_error(Code::ConcurrencyConflict)
}
