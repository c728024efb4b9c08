//! Making calls: steps 9 to 14 of the pipeline, for one call at a time, or for several that only read.

use std::sync::Arc;

use baton_core::content::ContentBlock;
use baton_core::events::{ArtifactCreated, Event, RunWaitingForUser, ToolCallCompleted, ToolCallFailed, ToolCallMarked};
use baton_core::execution::{Asks, CallStage, NewQuestion, PendingCall, answer_value};
use baton_core::fault::Point;
use baton_core::tools::pipeline::{CallResult, Executed};
use baton_core::tools::{CallRows, Entry, Idempotency, Invocation, InvocationStatus, Moved, Parallel, Question, ReasonCode};
use futures::future::try_join_all;
use tokio::sync::{mpsc, oneshot};

use crate::control::StopReason;
use crate::run_loop::{Flow, Outcome, RunContext, Suspending};

/// Calls of a turn that run beside each other: each may hold a connection or a thread.
const PARALLEL_CALLS_MAX: usize = 8;

/// A call that may be made.
#[derive(Debug)]
pub(super) struct Ready {
    invocation: Invocation,
    stage: CallStage,
    /// By an earlier execution: then no failure of this one says that nothing was done.
    may_have_been_sent: bool,
}

/// Which calls are to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Those that an earlier execution had started.
    Started,
    All,
}

/// The next calls in order: all that are left, where each of them may run beside the others; else one.
pub(super) fn next_batch(context: &RunContext<'_>, which: Which) -> Flow<Option<Vec<Ready>>> {
    let mut ready = Vec::new();
    for pending in &context.state.pending_calls {
        if which == Which::All || pending.stage == CallStage::Started {
            ready.push(ready_of(context, pending)?);
        }
    }
    if ready.is_empty() {
        return Ok(None);
    }
    let at_once = if ready.iter().all(|call| is_parallel(context, call)) { PARALLEL_CALLS_MAX } else { 1 };
    ready.truncate(at_once);
    Ok(Some(ready))
}

fn ready_of(context: &RunContext<'_>, pending: &PendingCall) -> Flow<Ready> {
    let invocation = pending.proposal.as_ref().and_then(|proposal| context.invocations.get(&proposal.invocation_id));
    match (&pending.stage, invocation) {
        (CallStage::Authorized | CallStage::Started | CallStage::AskedUser { answer: Some(_), .. }, Some(invocation)) => {
            let may_have_been_sent = invocation.may_have_been_sent();
            Ok(Ready { invocation: invocation.clone(), stage: pending.stage.clone(), may_have_been_sent })
        }
        _ => Err(Outcome::defect("a call was to be made before it was decided")),
    }
}

fn is_parallel(context: &RunContext<'_>, call: &Ready) -> bool {
    let spec = context.pipeline.tools.entry(&call.invocation.tool_name).map(Entry::spec);
    spec.is_some_and(|spec| spec.idempotency == Idempotency::ReadOnly && spec.parallel == Parallel::Allowed)
}

/// Makes a batch, and puts what came of it on record.
pub(super) async fn act(context: &mut RunContext<'_>, mut batch: Vec<Ready>) -> Flow<()> {
    let executed = match batch.as_slice() {
        [Ready { invocation, stage: CallStage::AskedUser { answer: Some(answer), .. }, .. }] => {
            vec![take_answer(context, invocation, answer).await?]
        }
        _ => {
            start(context, &mut batch).await?;
            execute(context, &mut batch).await?
        }
    };
    record(context, batch, executed).await
}

/// Step 9. A call that an earlier execution had started is on record.
async fn start(context: &mut RunContext<'_>, batch: &mut [Ready]) -> Flow<()> {
    let (mut events, mut calls) = (Vec::new(), CallRows::default());
    for Ready { invocation, .. } in batch.iter_mut().filter(|call| call.stage == CallStage::Authorized) {
        events.push(Event::ToolCallStarted(marked(invocation)));
        invocation.status = InvocationStatus::Running;
        calls.moved.push(Moved::to(invocation.id, invocation.status));
    }
    if !events.is_empty() {
        context.append_calls(events, calls).await?;
    }
    context.fault(Point::BeforeTool).await?;
    context.certainly_ours().await
}

/// Steps 10 to 12, while no transaction is open. Until an effect may have been sent whatever stops the run stops the calls;
/// afterwards they end by themselves, within the tool's time, and only a lost lease stops them: what happened is to be on record.
async fn execute(context: &mut RunContext<'_>, batch: &mut [Ready]) -> Flow<Vec<Executed>> {
    let pipeline = context.pipeline;
    let on_behalf = Arc::clone(&context.on_behalf);
    let (marks, mut requests) = mpsc::channel(1);
    for Ready { invocation, .. } in batch.iter_mut() {
        invocation.begun = true;
        context.begin(invocation.id);
    }
    let invocations: Vec<Invocation> = batch.iter().map(|call| call.invocation.clone()).collect();
    let calls = try_join_all(invocations.iter().map(|invocation| pipeline.execute(&on_behalf, invocation, marks.clone())));
    tokio::pin!(calls);
    let mut must_end = invocations.iter().any(Invocation::may_have_been_sent);
    loop {
        let stops = if must_end { StopReason::Fenced } else { StopReason::CancelRequested };
        tokio::select! {
            biased;
            reason = context.control.stopped_by(stops) => return Err(reason.into()),
            Some(request) = requests.recv() => {
                mark(context, batch, request).await?;
                must_end = true;
            }
            executed = &mut calls => return executed.map_err(Outcome::from),
        }
    }
}

/// The watermark: that an effect may be sent is on record before the tool may send it. Only calls that are made alone send any.
async fn mark(context: &mut RunContext<'_>, batch: &mut [Ready], request: oneshot::Sender<()>) -> Flow<()> {
    let [Ready { invocation, .. }] = batch else { return Err(Outcome::defect("a call that was said to read marks an effect")) };
    context.check_stop()?;
    context.certainly_ours().await?;
    let sent = Moved { id: invocation.id, status: InvocationStatus::Running, effect_sent: true };
    context.append_calls(Vec::new(), CallRows { moved: vec![sent], ..CallRows::default() }).await?;
    invocation.effect_sent = true;
    // The commit may have taken longer than the lease is certain.
    context.still_ours().await?;
    let _ = request.send(()); // a tool that does not wait any more sends nothing
    Ok(())
}

async fn take_answer(context: &RunContext<'_>, invocation: &Invocation, answer: &[ContentBlock]) -> Flow<Executed> {
    let answered = context.pipeline.take_answer(&context.on_behalf, invocation, answer_value(answer)).await;
    answered.map_err(Outcome::from)
}

/// Step 13, for the whole batch; 14 is the fold's.
async fn record(context: &mut RunContext<'_>, batch: Vec<Ready>, executed: Vec<Executed>) -> Flow<()> {
    let (mut events, mut calls) = (Vec::new(), CallRows::default());
    for (Ready { invocation, may_have_been_sent, .. }, executed) in batch.into_iter().zip(executed) {
        let status = match executed {
            Executed::Asked(question) => return Err(Outcome::Suspended(Box::new(ask_user(context, &invocation, question)))),
            Executed::Completed(result) => {
                complete(&invocation, result, &mut events, &mut calls);
                InvocationStatus::Completed
            }
            // It was done; what is lost is only its result.
            Executed::Unusable(reason) if invocation.may_have_been_sent() => {
                complete(&invocation, CallResult::unusable(reason), &mut events, &mut calls);
                InvocationStatus::Completed
            }
            Executed::Unusable(reason) | Executed::Failed(reason) if is_unknown(&invocation, reason, may_have_been_sent) => {
                events.push(Event::ToolCallUncertain(marked(&invocation)));
                InvocationStatus::Uncertain
            }
            Executed::Unusable(reason) | Executed::Failed(reason) => {
                events.push(Event::ToolCallFailed(failed(&invocation, reason)));
                InvocationStatus::Failed
            }
        };
        calls.moved.push(Moved::to(invocation.id, status));
    }
    context.append_calls(events, calls).await?;
    context.fault(Point::ResultRecorded).await?; // 13
    context.fault(Point::ResultRendered).await // 14
}

/// Whether a call that failed may have had its effect: an earlier execution of it may, or this one, whose time was over, or which
/// says itself that it cannot know.
fn is_unknown(invocation: &Invocation, reason: ReasonCode, was_sent_before: bool) -> bool {
    let says_nothing = matches!(reason, ReasonCode::ToolTimeout | ReasonCode::Unknown);
    was_sent_before || (says_nothing && invocation.may_have_been_sent())
}

fn complete(invocation: &Invocation, result: CallResult, events: &mut Vec<Event>, calls: &mut CallRows) {
    let CallResult { value, truncated, artifact } = result;
    let artifact_id = artifact.as_ref().map(|artifact| artifact.id);
    if let Some(artifact) = artifact {
        events.push(Event::ArtifactCreated(ArtifactCreated {
            artifact_id: artifact.id,
            media_type: artifact.media_type.clone(),
            name: artifact.name.clone(),
            size_bytes: artifact.size_bytes,
        }));
        calls.artifacts.push(artifact);
    }
    let (call_id, invocation_id) = (invocation.call_id.clone(), invocation.id);
    events.push(Event::ToolCallCompleted(ToolCallCompleted { artifact_id, call_id, invocation_id, result: value, truncated }));
}

/// What is written as the run lets go to wait for its user.
fn ask_user(context: &RunContext<'_>, invocation: &Invocation, question: Question) -> Suspending {
    let (id, ttl) = (context.clock.new_id(), context.question_ttl);
    let waiting = Event::RunWaitingForUser(RunWaitingForUser {
        choices: question.choices.clone(),
        expires_at: context.clock.now() + ttl,
        question: question.question.clone(),
        question_id: id,
    });
    let choices = question.choices.map(|choices| serde_json::Value::from(choices).to_string());
    let asks = NewQuestion { id, invocation_id: invocation.id, question: question.question, choices, ttl };
    Suspending {
        events: vec![waiting],
        calls: CallRows { moved: vec![Moved::to(invocation.id, InvocationStatus::Waiting)], ..CallRows::default() },
        asks: Asks::Question(asks),
    }
}

fn marked(invocation: &Invocation) -> ToolCallMarked {
    ToolCallMarked { call_id: invocation.call_id.clone(), invocation_id: invocation.id }
}

fn failed(invocation: &Invocation, reason: ReasonCode) -> ToolCallFailed {
    // Nothing was sent: what is unknown is only why.
    let reason = if reason == ReasonCode::Unknown { ReasonCode::ToolExecutionError } else { reason };
    ToolCallFailed {
        call_id: invocation.call_id.clone(),
        invocation_id: invocation.id,
        message: reason.message().to_owned(),
        reason_code: reason.to_string(),
    }
}
