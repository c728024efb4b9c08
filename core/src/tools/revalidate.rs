//! Whether an approval still is for what would be done: an approval is given for exact bytes, one version of a tool, one
//! version of an agent, and the rights of one run.

use std::collections::BTreeSet;

use crate::closed_set::closed_set;
use crate::tools::invocation::{ApprovedFor, Invocation};
use crate::tools::pipeline::OnBehalf;

closed_set! {
    /// Why an approval does not count any more.
    Void {
        ToolRemoved = "tool_removed",
        ToolDisabled = "tool_disabled",
        ToolVersionChanged = "tool_version_changed",
        SchemaChanged = "schema_changed",
        ArgumentsChanged = "arguments_changed",
        AgentChanged = "agent_changed",
        ScopesChanged = "scopes_changed",
        PolicyChanged = "policy_changed",
        /// The log has an approval that the row does not have.
        NotApproved = "not_approved",
    }
}

/// `before` is the call as it was when it was asked for, `now` as it would be made. Everything is compared, though most of it
/// cannot change by any way of ours: a row that somebody edited by hand must not execute.
pub(super) fn void(before: &Invocation, approval: &ApprovedFor, now: &Invocation, on_behalf: &OnBehalf) -> Option<Void> {
    let scopes: BTreeSet<&str> = on_behalf.principal.scopes.iter().map(|scope| scope.as_str()).collect();
    let scopes_then: BTreeSet<&str> = approval.scopes.iter().map(String::as_str).collect();
    let checks = [
        (before.tool_version != now.tool_version, Void::ToolVersionChanged),
        (before.schema_sha256 != now.schema_sha256, Void::SchemaChanged),
        (before.arguments != now.arguments || before.idempotency_key != now.idempotency_key, Void::ArgumentsChanged),
        (approval.agent_version != on_behalf.agent_version, Void::AgentChanged),
        (scopes_then != scopes, Void::ScopesChanged),
    ];
    checks.into_iter().find(|(changed, _)| *changed).map(|(_, void)| void)
}
