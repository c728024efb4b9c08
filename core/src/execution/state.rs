//! The run as a fold over its events: pure, and the only source of a run's state.
//!
//! The worker folds to know where a run stands, and folds its own events as it writes them; the row's counters are totals of
//! this fold, and the audit of every integration test compares the two.

use rust_decimal::Decimal;
use serde_json::Value;
use uuid::Uuid;

use crate::content::ContentBlock;
use crate::events::{Event, EventType, Stop, ToolCall};
use crate::execution::conversation::Conversation;
use crate::runs::{FailureReason, ResumeCause, RunStatus, Usage};

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
    pub usage: Usage,
    /// What the user said to begin the run.
    pub input: Vec<ContentBlock>,
    pub conversation: Conversation,
    /// Calls of the last turn that have no result, in order.
    pub pending_calls: Vec<PendingCall>,
    /// Why the model ended its last turn.
    pub last_stop: Option<Stop>,
    pub failure: Option<FailureReason>,
    /// Some charged call had no price: the cost is unknown from then on.
    unpriced: bool,
}

/// The counters that a run's row holds: totals of the fold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub step_count: u32,
    pub usage: Usage,
}

/// A call that the model asked for and that has no result yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    pub call: ToolCall,
    pub step: u32,
    pub stage: CallStage,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallStage {
    /// In the model's answer, not yet in the log as a proposal.
    Requested,
    /// `arguments` is null where the model's text was not a JSON object.
    Proposed {
        invocation_id: Uuid,
        arguments: Value,
    },
    Started {
        invocation_id: Uuid,
        arguments: Value,
    },
}

impl CallStage {
    fn invocation(&self) -> Option<(Uuid, &Value)> {
        match self {
            Self::Requested => None,
            Self::Proposed { invocation_id, arguments } | Self::Started { invocation_id, arguments } => {
                Some((*invocation_id, arguments))
            }
        }
    }
}

/// The log contradicts the rules: a defect, or a damaged database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    #[error("`{event_type}` cannot follow while the run is {status}")]
    Transition { event_type: EventType, status: RunStatus },
    #[error("`{event_type}` names a call that is not open")]
    UnknownCall { event_type: EventType },
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
            usage: Usage::default(),
            input: Vec::new(),
            conversation: history,
            pending_calls: Vec::new(),
            last_stop: None,
            failure: None,
            unpriced: false,
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
                self.usage.model_calls = self.usage.model_calls.saturating_add(1);
            }
            Event::ModelResponseFailed(_) => self.failed_attempts += 1,
            Event::ModelResponseCompleted(response) => {
                self.turns += 1;
                self.last_stop = Some(response.stop);
                self.failed_attempts = 0;
                self.usage.charge(&response.usage);
                self.charge_cost(response.cost_usd);
                self.pending_calls = response
                    .tool_calls
                    .iter()
                    .map(|call| PendingCall { call: call.clone(), step: response.step, stage: CallStage::Requested })
                    .collect();
            }
            Event::ToolCallProposed(proposed) => {
                self.usage.tool_calls = self.usage.tool_calls.saturating_add(1);
                let call = self.open_call(event, &proposed.call_id)?;
                call.stage = CallStage::Proposed { invocation_id: proposed.invocation_id, arguments: proposed.arguments.clone() };
            }
            Event::ToolCallStarted(started) => {
                let call = self.open_call(event, &started.call_id)?;
                if let Some((invocation_id, arguments)) = call.stage.invocation() {
                    call.stage = CallStage::Started { invocation_id, arguments: arguments.clone() };
                }
            }
            Event::ToolCallCompleted(call) => self.close_call(event, &call.call_id)?,
            Event::ToolCallFailed(call) => self.close_call(event, &call.call_id)?,
            Event::ToolCallDenied(call) => self.close_call(event, &call.call_id)?,
            Event::ToolCallUncertain(call) => self.close_call(event, &call.call_id)?,
            Event::RunWaitingForApproval(_) => self.become_status(event, RunStatus::WaitingForApproval)?,
            Event::RunWaitingForUser(_) => self.become_status(event, RunStatus::WaitingForUser)?,
            Event::UserInputDelivered(_) => {
                self.become_status(event, RunStatus::Queued)?;
                self.resume_after = Some(ResumeCause::Input);
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

    fn close_call(&mut self, event: &Event, call_id: &str) -> Result<(), FoldError> {
        self.open_call(event, call_id)?;
        self.pending_calls.retain(|pending| pending.call.call_id != call_id);
        Ok(())
    }

    fn charge_cost(&mut self, cost: Option<Decimal>) {
        self.unpriced |= cost.is_none();
        self.usage.cost_usd = match cost {
            Some(cost) if !self.unpriced => Some(self.usage.cost_usd.unwrap_or_default().saturating_add(cost)),
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests;
