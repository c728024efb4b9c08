//! Handing the outcome of an execution to the one place that ends a run.

use baton_core::clock::Clock;
use baton_core::events::{Event, RunEnded, RunFailed, RunRequeued};
use baton_core::execution::{Append, Ending, Journal, Lease, Totals, WriteError};
use baton_core::fault::Point;
use baton_core::runs::{Failure, RequeueCause};

use crate::control::StopReason;
use crate::run_loop::{Outcome, RunContext};

/// Writes the end with its trailing events, in one statement with status and release.
pub(crate) async fn finish(context: &mut RunContext<'_>, mut outcome: Outcome) {
    if context.faults.hit(Point::BeforeFinish).await.is_err() {
        return;
    }
    let trailing = outcome.take_trailing();
    // What was written, and what is written now. A fold that fails is a defect: then the end is written alone.
    let (trailing, totals, outcome) = match context.fold(&trailing) {
        Ok(()) if trailing.is_empty() => (trailing, context.written, outcome),
        Ok(()) => (trailing, context.state.totals(), outcome),
        Err(defect) => (Vec::new(), context.written, defect),
    };
    let cancel_observed = context.control.reason() == Some(StopReason::CancelRequested);
    let mut end = End { lease: &mut context.lease, journal: context.journal, clock: context.clock, cancel_observed };
    match end.write(trailing, totals, outcome).await {
        Ok(()) => {}
        Err(WriteError::Fenced | WriteError::Unanswered) => tracing::warn!("the lease is lost; nothing more is written"),
        Err(WriteError::Refused(error)) => {
            tracing::error!(error = &*error as &dyn std::error::Error, "the end of a run was refused; failing it");
            if let Err(error) = end.write(Vec::new(), context.written, Outcome::defect("refused")).await {
                // The run stays ours and executed by nobody: the renewal finds it and hands it back.
                tracing::error!(error = &error as &dyn std::error::Error, "the run could not be failed");
            }
        }
    }
}

/// Whatever ends a run, with or without its log.
#[derive(Debug)]
pub(crate) struct End<'a> {
    pub(crate) lease: &'a mut Lease,
    pub(crate) journal: &'a Journal,
    pub(crate) clock: &'a Clock,
    pub(crate) cancel_observed: bool,
}

impl End<'_> {
    pub(crate) async fn write(&mut self, mut events: Vec<Event>, totals: Totals, outcome: Outcome) -> Result<(), WriteError> {
        let usage = totals.usage;
        let (event, ending) = match outcome {
            Outcome::Completed { .. } => (Event::RunCompleted(RunEnded { usage }), Ending::Completed),
            Outcome::Cancelled => (Event::RunCancelled(RunEnded { usage }), Ending::Cancelled),
            Outcome::HandedBack => (Event::RunRequeued(RunRequeued { cause: RequeueCause::HandedBack }), Ending::HandedBack),
            Outcome::Failed { reason, class, .. } => {
                let step = (totals.step_count > 0).then_some(totals.step_count);
                let failure = Failure::new(reason, step, self.clock.now());
                (Event::RunFailed(RunFailed { failure: failure.clone(), usage }), Ending::Failed { failure, class })
            }
            Outcome::Fenced => return Err(WriteError::Fenced),
        };
        events.push(event);
        let append = Append { events: &events, totals, ending: Some(ending), cancel_observed: self.cancel_observed };
        self.journal.append(self.lease, append).await
    }
}
