//! Handing the outcome of an execution to the one place that ends a run.

use baton_core::events::{Event, RunEnded, RunFailed, RunRequeued};
use baton_core::execution::{Append, Ending, WriteError};
use baton_core::fault::Point;
use baton_core::runs::{Failure, FailureReason, RequeueCause};

use crate::control::StopReason;
use crate::run_loop::{Outcome, RunContext};

/// Writes the end with its trailing events, in one statement with status and release.
pub(crate) async fn finish(context: &mut RunContext<'_>, outcome: Outcome) {
    if matches!(outcome, Outcome::Fenced) {
        tracing::warn!(phase = "execution", "the lease is lost; nothing more is written");
        return;
    }
    if context.faults.hit(Point::BeforeFinish).await.is_err() {
        return;
    }
    match settle(context, outcome).await {
        Ok(()) => {}
        Err(WriteError::Fenced) => tracing::warn!(phase = "finish", "the lease is lost; nothing more is written"),
        Err(WriteError::Refused(error)) => {
            tracing::error!(error = &*error as &dyn std::error::Error, "the end of a run was refused; failing it");
            if let Err(error) = settle(context, Outcome::defect("refused")).await {
                // The run stays ours and executed by nobody: the renewal finds it and hands it back.
                tracing::error!(error = &error as &dyn std::error::Error, "the run could not be failed");
            }
        }
    }
}

async fn settle(context: &mut RunContext<'_>, outcome: Outcome) -> Result<(), WriteError> {
    let (mut events, ending) = match outcome {
        Outcome::Completed { trailing } => (trailing, Ending::Completed),
        Outcome::Failed { reason, class, trailing } => (trailing, Ending::Failed { failure: failure(context, reason), class }),
        Outcome::Cancelled => (Vec::new(), Ending::Cancelled),
        Outcome::HandedBack => (Vec::new(), Ending::HandedBack),
        Outcome::Fenced => return Err(WriteError::Fenced),
    };
    // Two folds: the end names the usage, which the trailing events may move.
    if context.fold(&events).is_err() {
        events.clear();
    }
    let usage = context.state.usage;
    let end = match &ending {
        Ending::Completed => Event::RunCompleted(RunEnded { usage }),
        Ending::Failed { failure, .. } => Event::RunFailed(RunFailed { failure: failure.clone(), usage }),
        Ending::Cancelled => Event::RunCancelled(RunEnded { usage }),
        Ending::HandedBack => Event::RunRequeued(RunRequeued { cause: RequeueCause::HandedBack }),
    };
    events.push(end);
    let cancel_observed = context.control.reason() == Some(StopReason::CancelRequested);
    let append = Append { events: &events, state: &context.state, ending: Some(ending), cancel_observed };
    context.journal.append(&mut context.lease, append).await
}

fn failure(context: &RunContext<'_>, reason: FailureReason) -> Failure {
    let step = (context.state.step > 0).then_some(context.state.step);
    Failure::new(reason, step, context.clock.now())
}
