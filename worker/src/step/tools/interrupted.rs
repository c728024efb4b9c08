//! Calls that an earlier execution had started, and whose result nobody knows.

use baton_core::canonical;
use baton_core::events::{Event, ToolCallFailed, ToolCallMarked};
use baton_core::execution::CallStage;
use baton_core::tools::{CallRows, InvocationStatus, Moved, ReasonCode, Recovery, recover};

use crate::run_loop::{Flow, RunContext};

/// Puts on record what may not be repeated. What may is left as it is: it is started, and will be executed.
pub(super) async fn settle(context: &mut RunContext<'_>) -> Flow<()> {
    let (mut events, mut calls) = (Vec::new(), CallRows::default());
    for pending in context.state.pending_calls.iter().filter(|pending| pending.stage == CallStage::Started) {
        let Some(proposal) = &pending.proposal else { continue };
        let invocation_id = proposal.invocation_id;
        let row = context.invocations.get(&invocation_id);
        let call_id = pending.call.call_id.clone();
        let arguments = canonical::text(&proposal.arguments).unwrap_or_default();
        let status = match recover(&context.pipeline.tools, row, &arguments) {
            Recovery::RunAgain => continue,
            Recovery::Uncertain => {
                tracing::warn!(%invocation_id, "whether a call had its effect is unknown");
                events.push(Event::ToolCallUncertain(ToolCallMarked { call_id, invocation_id }));
                InvocationStatus::Uncertain
            }
            Recovery::NotFound => {
                let reason = ReasonCode::ToolNotFound;
                let (message, reason_code) = (reason.message().to_owned(), reason.to_string());
                events.push(Event::ToolCallFailed(ToolCallFailed { call_id, invocation_id, message, reason_code }));
                InvocationStatus::Failed
            }
        };
        calls.moved.push(Moved::to(invocation_id, status));
    }
    if events.is_empty() { Ok(()) } else { context.append_calls(events, calls).await }
}
