//! The run as a fold over its events: pure, and the only source of a run's state.
//!
//! The worker folds to know where a run stands, and folds its own events as it writes them; the row's counters are totals of
//! this fold, and the audit of every integration test compares the two.

use rust_decimal::Decimal;
use uuid::Uuid;

use crate::content::ContentBlock;
use crate::events::{Decision, Event, EventType, Hold, ModelResponseFailed, Stop, TokenUsage};
use crate::execution::calls::{AskedApproval, CallStage, PendingCall, Proposal, Repetition};
use crate::execution::conversation::Conversation;
use crate::runs::{COST_USD_MOST, FailureReason, ResumeCause, RunStatus, Usage};

/// Where a run stands.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    pub status: RunStatus,
    /// Claims so far; equals the lease's epoch while it runs.
    pub claims: i32,
    pub lease_losses: i32,
    pub cancel_requested: bool,
    pub resume_after: Option<ResumeCause>,
    /// The step that was begun last, from 1; 0 before the first.
    pub step: u32,
    /// The attempt that was begun last within the step, from 1.
    pub attempt: u32,
    /// Attempts of this step that the model failed. One that a crash interrupted is not among them.
    pub failed_attempts: u32,
    /// Turns that the model completed; also the index of its next message.
    pub turns: u32,
    /// Turns in a row whose calls were not made because the answer was cut off.
    pub cut_off_turns: u32,
    /// Whom the run asked first, and asks to its end.
    pub pinned: Option<Pinned>,
    /// With what is held for a call that is under way.
    pub usage: Usage,
    /// What the user said to begin the run.
    pub input: Vec<ContentBlock>,
    pub conversation: Conversation,
    /// Calls of the last turn that have no result, in order.
    pub pending_calls: Vec<PendingCall>,
    /// Why the model ended its last turn.
    pub last_stop: Option<Stop>,
    /// How often the last call has had this result in a row.
    pub same_result: Repetition,
    /// How often the last denial has been repeated in a row.
    pub same_denial: Repetition,
    pub failure: Option<FailureReason>,
    /// Some charged call had no price: the cost is unknown from then on.
    unpriced: bool,
    /// What was charged before the hold of the call that was begun last.
    before_hold: Option<Charged>,
}

/// A provider and a model there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    pub provider: String,
    pub model: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Charged {
    usage: Usage,
    unpriced: bool,
}

/// The counters that a run's row holds: totals of the fold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub step_count: u32,
    pub usage: Usage,
}

/// The log contradicts the rules: a defect, or a damaged database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    #[error("`{event_type}` cannot follow while the run is {status}")]
    Transition { event_type: EventType, status: RunStatus },
    #[error("`{event_type}` names a call that is not open")]
    UnknownCall { event_type: EventType },
    #[error("`{event_type}` answers what nobody has asked")]
    UnknownQuestion { event_type: EventType },
}

impl RunState {
    /// A run before its first event. `history` is the session's conversation until then.
    pub fn new(history: Conversation) -> Self {
        Self {
            status: RunStatus::Queued,
            claims: 0,
            lease_losses: 0,
            cancel_requested: false,
            resume_after: None,
            step: 0,
            attempt: 0,
            failed_attempts: 0,
            turns: 0,
            cut_off_turns: 0,
            pinned: None,
            usage: Usage::default(),
            input: Vec::new(),
            conversation: history,
            pending_calls: Vec::new(),
            last_stop: None,
            same_result: Repetition::default(),
            same_denial: Repetition::default(),
            failure: None,
            unpriced: false,
            before_hold: None,
        }
    }

    pub fn totals(&self) -> Totals {
        Totals { step_count: self.step, usage: self.usage }
    }

    /// # Errors
    /// [`FoldError`]; the state is then not to be used.
    pub fn apply(&mut self, event: &Event) -> Result<(), FoldError> {
        self.conversation.apply(event);
        match event {
            Event::UserMessageCreated(message) => self.input.clone_from(&message.content),
            Event::RunClaimed(_) => {
                self.become_status(event, RunStatus::Running)?;
                self.claims += 1;
            }
            Event::RunResumed(_) => self.resume_after = None,
            Event::RunRequeued(requeued) => {
                self.become_status(event, RunStatus::Queued)?;
                let cause = ResumeCause::from(requeued.cause);
                self.lease_losses += i32::from(cause == ResumeCause::LeaseExpired);
                self.resume_after = Some(cause);
            }
            Event::RunCancelRequested(_) => self.cancel_requested = true,
            Event::ModelRequestStarted(request) => {
                if request.step != self.step {
                    self.failed_attempts = 0;
                }
                (self.step, self.attempt) = (request.step, request.attempt);
                let pinned = || Pinned { provider: request.provider.clone(), model: request.model.clone() };
                self.pinned.get_or_insert_with(pinned);
                self.usage.model_calls = self.usage.model_calls.saturating_add(1);
                self.hold(request.held.as_ref());
            }
            Event::ModelResponseFailed(failed) => {
                self.failed_attempts += u32::from(failed.code != ModelResponseFailed::INTERRUPTED);
                if let Some(usage) = &failed.usage {
                    self.settle(usage, failed.cost_usd);
                }
            }
            Event::ModelResponseCompleted(response) => {
                self.turns += 1;
                self.last_stop = Some(response.stop);
                self.failed_attempts = 0;
                let is_cut_off = response.stop.is_cut_off() && !response.tool_calls.is_empty();
                self.cut_off_turns = if is_cut_off { self.cut_off_turns + 1 } else { 0 };
                self.settle(&response.usage, response.cost_usd);
                self.pending_calls =
                    response.tool_calls.iter().map(|call| PendingCall::requested(call.clone(), response.step)).collect();
            }
            Event::ToolCallProposed(proposed) => {
                self.usage.tool_calls = self.usage.tool_calls.saturating_add(1);
                let call = self.open_call(event, &proposed.call_id)?;
                let (invocation_id, arguments) = (proposed.invocation_id, proposed.arguments.clone());
                call.proposal = Some(Proposal { invocation_id, arguments });
                call.stage = CallStage::Proposed;
            }
            Event::ToolCallAuthorized(decided) => self.open_call(event, &decided.call_id)?.stage = CallStage::Authorized,
            Event::ToolCallStarted(started) => self.open_call(event, &started.call_id)?.stage = CallStage::Started,
            Event::ToolCallCompleted(completed) => {
                let call = self.close_call(event, &completed.call_id)?;
                self.same_result.count(&call, &completed.result.to_string());
            }
            Event::ToolCallFailed(failed) => {
                let call = self.close_call(event, &failed.call_id)?;
                self.same_result.count(&call, &failed.reason_code);
            }
            Event::ToolCallDenied(denied) => {
                let call = self.close_call(event, &denied.call_id)?;
                self.same_denial.count(&call, &denied.reason_code);
            }
            Event::ToolCallUncertain(uncertain) => {
                self.close_call(event, &uncertain.call_id)?;
            }
            Event::ApprovalRequested(asked) => {
                let call = self.open_call(event, &asked.call_id)?;
                call.approval = Some(AskedApproval { id: asked.approval_id, decision: None });
                call.stage = CallStage::Proposed; // also where it had been authorized under another policy
            }
            Event::ApprovalResolved(resolved) => self.resolve_approval(event, resolved.approval_id, resolved.decision)?,
            Event::RunWaitingForApproval(_) => self.become_status(event, RunStatus::WaitingForApproval)?,
            Event::RunWaitingForUser(waiting) => {
                self.become_status(event, RunStatus::WaitingForUser)?;
                // Control tools run alone, so the call that is under way is the one that asks.
                let unknown = FoldError::UnknownQuestion { event_type: event.event_type() };
                let asking = self.pending_calls.iter_mut().find(|pending| pending.stage == CallStage::Started).ok_or(unknown)?;
                asking.stage = CallStage::AskedUser { question_id: waiting.question_id, answer: None };
            }
            Event::UserInputDelivered(input) => {
                self.become_status(event, RunStatus::Queued)?;
                self.resume_after = Some(ResumeCause::Input);
                self.answer_question(event, input.question_id, &input.content)?;
            }
            Event::RunCompleted(_) => self.end(event, RunStatus::Completed)?,
            Event::RunCancelled(_) => self.end(event, RunStatus::Cancelled)?,
            Event::RunFailed(failed) => {
                self.end(event, RunStatus::Failed)?;
                self.lease_losses += i32::from(failed.failure.reason == FailureReason::LeaseLostTooOften);
                self.failure = Some(failed.failure.reason);
            }
            _ => {}
        }
        Ok(())
    }

    fn become_status(&mut self, event: &Event, next: RunStatus) -> Result<(), FoldError> {
        if !self.status.may_become(next) {
            return Err(FoldError::Transition { event_type: event.event_type(), status: self.status });
        }
        self.status = next;
        Ok(())
    }

    fn end(&mut self, event: &Event, status: RunStatus) -> Result<(), FoldError> {
        self.resume_after = None;
        self.become_status(event, status)
    }

    fn open_call(&mut self, event: &Event, call_id: &str) -> Result<&mut PendingCall, FoldError> {
        let unknown = FoldError::UnknownCall { event_type: event.event_type() };
        self.pending_calls.iter_mut().find(|pending| pending.call.call_id == call_id).ok_or(unknown)
    }

    fn close_call(&mut self, event: &Event, call_id: &str) -> Result<PendingCall, FoldError> {
        let unknown = FoldError::UnknownCall { event_type: event.event_type() };
        let at = self.pending_calls.iter().position(|pending| pending.call.call_id == call_id).ok_or(unknown)?;
        Ok(self.pending_calls.remove(at))
    }

    /// The last answer sends the run back to the queue. An approval that expired or was cancelled does not: its run ends.
    fn resolve_approval(&mut self, event: &Event, approval_id: Uuid, decision: Decision) -> Result<(), FoldError> {
        let unknown = FoldError::UnknownQuestion { event_type: event.event_type() };
        let mut asked = self.pending_calls.iter_mut().filter_map(|pending| pending.approval.as_mut());
        asked.find(|approval| approval.id == approval_id && approval.decision.is_none()).ok_or(unknown)?.decision =
            Some(decision);
        let is_answer = matches!(decision, Decision::ApproveOnce | Decision::Deny);
        if is_answer && self.open_approvals().next().is_none() {
            self.become_status(event, RunStatus::Queued)?;
            self.resume_after = Some(ResumeCause::Approval);
        }
        Ok(())
    }

    /// Approvals that nobody has answered, in the order of their calls.
    pub fn open_approvals(&self) -> impl Iterator<Item = Uuid> {
        let asked = self.pending_calls.iter().filter_map(|pending| pending.approval.as_ref());
        asked.filter(|approval| approval.decision.is_none()).map(|approval| approval.id)
    }

    fn answer_question(&mut self, event: &Event, question: Uuid, content: &[ContentBlock]) -> Result<(), FoldError> {
        let answered = self.pending_calls.iter_mut().find_map(|pending| match &mut pending.stage {
            CallStage::AskedUser { question_id, answer: answer @ None } if *question_id == question => Some(answer),
            _ => None,
        });
        *answered.ok_or(FoldError::UnknownQuestion { event_type: event.event_type() })? = Some(content.to_vec());
        Ok(())
    }

    /// A call that never ends stays charged at its hold: what takes its place is the next one's.
    fn hold(&mut self, hold: Option<&Hold>) {
        let Some(hold) = hold else { return };
        self.before_hold = Some(Charged { usage: self.usage, unpriced: self.unpriced });
        let (input_tokens, output_tokens) = (hold.input_tokens, hold.output_tokens);
        self.charge(&TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() }, hold.cost_usd);
    }

    /// What a call came to, in the place of what was held for it.
    fn settle(&mut self, tokens: &TokenUsage, cost: Option<Decimal>) {
        if let Some(before) = self.before_hold.take() {
            (self.usage, self.unpriced) = (before.usage, before.unpriced);
        }
        self.charge(tokens, cost);
    }

    fn charge(&mut self, tokens: &TokenUsage, cost: Option<Decimal>) {
        self.usage.charge(tokens);
        self.unpriced |= cost.is_none();
        self.usage.cost_usd = match cost {
            Some(cost) if !self.unpriced => {
                Some(self.usage.cost_usd.unwrap_or_default().saturating_add(cost).min(COST_USD_MOST).normalize())
            }
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests;
