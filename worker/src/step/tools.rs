//! The calls of a turn, in order. A call that is on record already is never proposed again: after a crash it runs under the
//! identifier that the log has.

use baton_core::canonical;
use baton_core::content::fit;
use baton_core::events::{Event, Stop, ToolCall, ToolCallCompleted, ToolCallFailed, ToolCallMarked, ToolCallProposed};
use baton_core::execution::{CallStage, PendingCall};
use baton_core::fault::Point;
use baton_core::runs::FailureReason;
use baton_core::tools::pipeline::{self, ToolContext, ToolOutcome};
use serde_json::Value;
use uuid::Uuid;

use crate::run_loop::{Flow, Outcome, RunContext};

/// Bytes of a result as JSON; with its frame it fits the body of an event.
const RESULT_BYTES_MAX: usize = 200 * 1024;

/// Bytes of a call's arguments in canonical form, which may be longer than what the model wrote.
const ARGUMENTS_BYTES_MAX: usize = 128 * 1024;

/// Proposes the turn's calls that are not proposed, and executes those that have no result.
pub(crate) async fn call_tools(context: &mut RunContext<'_>) -> Flow<()> {
    context.check_stop()?;
    propose(context).await?;
    while let Some(pending) = context.state.pending_calls.first().cloned() {
        context.check_stop()?;
        call(context, pending).await?;
    }
    Ok(())
}

/// All proposals of a turn are one write.
async fn propose(context: &mut RunContext<'_>) -> Flow<()> {
    let requested: Vec<PendingCall> =
        context.state.pending_calls.iter().filter(|pending| pending.stage == CallStage::Requested).cloned().collect();
    let count = i32::try_from(requested.len()).unwrap_or(i32::MAX);
    if context.state.usage.tool_calls.saturating_add(count) > context.limits.max_tool_calls {
        return Err(Outcome::failed(FailureReason::BudgetExceeded));
    }
    if requested.is_empty() {
        return Ok(());
    }
    let proposals = requested.into_iter().map(|PendingCall { call, step, .. }| {
        Event::ToolCallProposed(ToolCallProposed {
            arguments: arguments_of(&call),
            call_id: call.call_id,
            invocation_id: context.clock.new_id(),
            name: call.name,
            step,
        })
    });
    let proposals: Vec<Event> = proposals.collect();
    context.append(proposals).await
}

/// The arguments in canonical form; null where the model's text is not a JSON object, or too long.
fn arguments_of(call: &ToolCall) -> Value {
    let canonical = canonical::parse(call.arguments_raw.as_bytes()).and_then(|value| canonical::text(&value));
    match canonical.ok().filter(|text| text.len() <= ARGUMENTS_BYTES_MAX).and_then(|text| serde_json::from_str(&text).ok()) {
        Some(arguments @ Value::Object(_)) => arguments,
        _ => Value::Null,
    }
}

async fn call(context: &mut RunContext<'_>, pending: PendingCall) -> Flow<()> {
    let PendingCall { call, stage, .. } = pending;
    let (invocation_id, arguments, is_started) = match stage {
        CallStage::Requested => return Err(Outcome::defect("a call was executed before it was proposed")),
        CallStage::Proposed { invocation_id, arguments } => (invocation_id, arguments, false),
        CallStage::Started { invocation_id, arguments } => (invocation_id, arguments, true),
    };
    if context.state.last_stop == Some(Stop::MaxTokens) {
        return fail(
            context,
            call.call_id,
            invocation_id,
            "truncated_turn",
            "The turn was cut off at its token limit; nothing was executed.",
        )
        .await;
    }
    if arguments.is_null() {
        return fail(
            context,
            call.call_id,
            invocation_id,
            "invalid_arguments",
            "The arguments are not a JSON object, or too long.",
        )
        .await;
    }
    if !is_started {
        context.append(vec![Event::ToolCallStarted(ToolCallMarked { call_id: call.call_id.clone(), invocation_id })]).await?;
    }
    context.fault(Point::BeforeTool).await?;
    context.certainly_ours().await?;
    let agent = context.agent.clone();
    let tools = ToolContext { clock: context.clock, enabled: &agent.tools };
    let outcome = tokio::select! {
        biased;
        reason = context.control.stopped() => return Err(reason.into()),
        outcome = pipeline::execute(tools, &call.name, &arguments) => outcome,
    };
    context.fault(Point::AfterTool).await?;
    match outcome {
        ToolOutcome::Completed { result } => {
            let (result, truncated) = bounded(result);
            let completed = ToolCallCompleted { artifact_id: None, call_id: call.call_id, invocation_id, result, truncated };
            context.append(vec![Event::ToolCallCompleted(completed)]).await
        }
        ToolOutcome::Failed { reason_code, message } => fail(context, call.call_id, invocation_id, reason_code, &message).await,
    }
}

async fn fail(context: &mut RunContext<'_>, call_id: String, invocation_id: Uuid, reason_code: &str, message: &str) -> Flow<()> {
    let failed = ToolCallFailed { call_id, invocation_id, message: message.to_owned(), reason_code: reason_code.to_owned() };
    context.append(vec![Event::ToolCallFailed(failed)]).await
}

/// A result that would not fit becomes the beginning of its text.
fn bounded(result: Value) -> (Value, bool) {
    let text = result.to_string();
    if text.len() <= RESULT_BYTES_MAX {
        return (result, false);
    }
    let (head, _) = fit(&text, RESULT_BYTES_MAX);
    (Value::String(head.to_owned()), true)
}
