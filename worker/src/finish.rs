//! Handing the outcome of an execution to the one place that ends a run.

use std::collections::HashMap;

use baton_core::clock::Clock;
use baton_core::events::{Event, RunEnded, RunFailed, RunRequeued, ToolCallFailed, ToolCallMarked};
use baton_core::execution::{Append, Ending, Journal, Lease, SuspendOutcome, Suspension, Totals, WriteError};
use baton_core::fault::Point;
use baton_core::runs::{Failure, RequeueCause};
use baton_core::tools::{CallRows, Invocation, InvocationStatus, Moved, ReasonCode};
use uuid::Uuid;

use crate::control::StopReason;
use crate::run_loop::{Outcome, RunContext, Suspending, Trailing};
use baton_core::error::chain;

/// Writes the end with its trailing events, in one statement with status and release.
pub(crate) async fn finish(context: &mut RunContext<'_>, outcome: Outcome) {
    if context.faults.hit(Point::BeforeFinish).await.is_err() {
        return;
    }
    let outcome = match outcome {
        Outcome::Suspended(suspending) => match suspend(context, *suspending).await {
            Some(outcome) => outcome,
            None => return,
        },
        outcome => outcome,
    };
    let written = end(context, outcome).await;
    match written {
        Ok(()) => {}
        Err(WriteError::Fenced | WriteError::Unanswered) => tracing::warn!("the lease is lost; nothing more is written"),
        Err(WriteError::Refused(error)) => {
            tracing::error!(error = chain(&*error), "the end of a run was refused; failing it");
            if let Err(error) = end(context, Outcome::defect("refused")).await {
                // The run stays ours and executed by nobody: the renewal finds it and hands it back.
                tracing::error!(error = chain(&error), "the run could not be failed");
            }
        }
    }
}

/// Lets the run wait. Some: it does not, and this is how it ends instead.
async fn suspend(context: &mut RunContext<'_>, suspending: Suspending) -> Option<Outcome> {
    let Suspending { events, calls, asks } = suspending;
    if let Err(defect) = context.fold(&events) {
        return Some(defect);
    }
    let suspension = Suspension { events: &events, calls, totals: context.state.totals(), asks };
    match context.journal.suspend(&mut context.lease, suspension).await {
        Ok(SuspendOutcome::Waiting) => None,
        Ok(SuspendOutcome::CancelRequested) => {
            context.control.stop(StopReason::CancelRequested);
            Some(Outcome::Cancelled)
        }
        Err(WriteError::Fenced | WriteError::Unanswered) => Some(Outcome::Fenced),
        Err(WriteError::Refused(error)) => {
            tracing::error!(error = chain(&*error), "a run could not be made to wait; failing it");
            Some(Outcome::defect("refused"))
        }
    }
}

async fn end(context: &mut RunContext<'_>, mut outcome: Outcome) -> Result<(), WriteError> {
    let trailing = outcome.take_trailing();
    // What was written, and what is written now. A fold that fails is a defect: then the end is written alone.
    let (trailing, totals, outcome) = match context.fold(&trailing.events) {
        Ok(()) if trailing.events.is_empty() => (trailing, context.written, outcome),
        Ok(()) => (trailing, context.state.totals(), outcome),
        Err(defect) => (Trailing::default(), context.written, defect),
    };
    let cancel_observed = context.control.reason() == Some(StopReason::CancelRequested);
    let mut end = End {
        lease: &mut context.lease,
        journal: context.journal,
        clock: context.clock,
        invocations: &context.invocations,
        cancel_observed,
    };
    end.write(trailing, totals, outcome).await
}

/// Whatever ends a run, with or without its log.
#[derive(Debug)]
pub(crate) struct End<'a> {
    pub(crate) lease: &'a mut Lease,
    pub(crate) journal: &'a Journal,
    pub(crate) clock: &'a Clock,
    /// Those that are not settled.
    pub(crate) invocations: &'a HashMap<Uuid, Invocation>,
    pub(crate) cancel_observed: bool,
}

impl End<'_> {
    pub(crate) async fn write(&mut self, trailing: Trailing, totals: Totals, outcome: Outcome) -> Result<(), WriteError> {
        let Trailing { mut events, model } = trailing;
        let usage = totals.usage;
        let (event, ending) = match outcome {
            Outcome::Completed { .. } => (Event::RunCompleted(RunEnded { usage }), Ending::Completed),
            Outcome::Cancelled => (Event::RunCancelled(RunEnded { usage }), Ending::Cancelled),
            Outcome::HandedBack => (Event::RunRequeued(RunRequeued { cause: RequeueCause::HandedBack }), Ending::HandedBack),
            Outcome::Failed { reason, class, .. } => {
                let step = (totals.step_count > 0).then_some(totals.step_count);
                tracing::info!(%reason, class, "a run failed");
                let failure = Failure::new(reason, step, self.clock.now());
                let known = class.as_deref().and_then(|class| class.parse().ok());
                let failure = match known {
                    Some(known) => failure.because(known),
                    None => failure,
                };
                (Event::RunFailed(RunFailed { failure: failure.clone(), usage }), Ending::Failed { failure, class })
            }
            Outcome::Suspended(_) | Outcome::Fenced => return Err(WriteError::Fenced),
        };
        let calls = if ending == Ending::HandedBack { CallRows::default() } else { self.close_calls(&mut events) };
        events.push(event);
        let append =
            Append { events: &events, calls, model, totals, ending: Some(ending), cancel_observed: self.cancel_observed };
        self.journal.append(self.lease, append).await
    }

    /// No call is left open by a run that has ended. One whose effect may have been sent says so, and one that had started that
    /// nothing came of it; the others were not made.
    fn close_calls(&self, events: &mut Vec<Event>) -> CallRows {
        let mut open: Vec<&Invocation> = self.invocations.values().collect();
        open.sort_by_key(|invocation| (invocation.step, invocation.index));
        let mut calls = CallRows::default();
        for invocation in open {
            let (call_id, invocation_id) = (invocation.call_id.clone(), invocation.id);
            let mut status = InvocationStatus::Cancelled;
            if invocation.may_have_been_sent() {
                events.push(Event::ToolCallUncertain(ToolCallMarked { call_id, invocation_id }));
                status = InvocationStatus::Uncertain;
            } else if invocation.status == InvocationStatus::Running {
                let reason = ReasonCode::Cancelled;
                let (message, reason_code) = (reason.message().to_owned(), reason.to_string());
                events.push(Event::ToolCallFailed(ToolCallFailed { call_id, invocation_id, message, reason_code }));
            }
            calls.moved.push(Moved::to(invocation.id, status));
        }
        calls
    }
}
