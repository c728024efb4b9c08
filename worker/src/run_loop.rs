//! The loop of a run: steps, until there is an outcome. It ends nothing itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use baton_core::Error;
use baton_core::clock::Clock;
use baton_core::events::Event;
use baton_core::execution::{Append, Asks, Journal, Lease, RunState, Totals, WriteError};
use baton_core::fault::{Faults, Point};
use baton_core::models::ModelRows;
use baton_core::notify::Notifier;
use baton_core::runs::{FailureClass, FailureReason, LimitsView};
use baton_core::tools::pipeline::{OnBehalf, Pipeline};
use baton_core::tools::{CallRows, Invocation, Moved};
use uuid::Uuid;

use crate::choice::Choices;
use crate::control::{Control, StopReason};
use crate::models::Continuation;
use crate::offer::Offer;
use crate::renewal::Renewal;
use crate::step;
use baton_core::error::chain;

/// The same call with the same result, or the same denial, so often in a row: the model will not find out by itself.
const REPETITIONS_MAX: u32 = 3;

/// Turns in a row whose calls were cut off: the next one would be, too.
const CUT_OFF_TURNS_MAX: u32 = 3;

/// One run in execution.
#[derive(Debug)]
pub(crate) struct RunContext<'a> {
    pub(crate) lease: Lease,
    /// The fold of everything that is written, and of what is being written.
    pub(crate) state: RunState,
    /// The totals of what is written, and of nothing else.
    pub(crate) written: Totals,
    /// The rows of the calls that are not settled, by identifier: what the log does not say of them.
    pub(crate) invocations: HashMap<Uuid, Invocation>,
    /// What the provider gave to be handed back, by step: it is not in the log either.
    pub(crate) continuations: BTreeMap<u32, Continuation>,
    pub(crate) on_behalf: Arc<OnBehalf>,
    /// The tools that the model is told of.
    pub(crate) offer: Offer,
    pub(crate) limits: LimitsView,
    /// How long a question waits for its user.
    pub(crate) question_ttl: Duration,
    pub(crate) control: Control,
    pub(crate) choices: &'a Choices,
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) journal: &'a Journal,
    pub(crate) notifier: &'a Notifier,
    pub(crate) clock: &'a Clock,
    pub(crate) renewal: &'a Renewal,
    pub(crate) faults: &'a Faults,
}

/// How an execution ends. `trailing` is written with the end, in one statement.
#[derive(Debug)]
pub(crate) enum Outcome {
    Completed {
        trailing: Trailing,
    },
    /// `class` is for operators.
    Failed {
        reason: FailureReason,
        class: Option<String>,
        trailing: Trailing,
    },
    /// The run waits for a person.
    Suspended(Box<Suspending>),
    Cancelled,
    HandedBack,
    /// The lease is lost, or whether a write was made cannot be known: somebody else goes on from the log.
    Fenced,
}

/// What is written with the end of a run, and happened before it.
#[derive(Debug, Default)]
pub(crate) struct Trailing {
    pub(crate) events: Vec<Event>,
    pub(crate) model: ModelRows,
}

/// What is written as a run lets go to wait for a person, in one statement.
#[derive(Debug)]
pub(crate) struct Suspending {
    pub(crate) events: Vec<Event>,
    pub(crate) calls: CallRows,
    pub(crate) asks: Asks,
}

/// A part of a run that may find the outcome of the whole.
pub(crate) type Flow<T> = Result<T, Outcome>;

impl Outcome {
    pub(crate) fn failed(reason: FailureReason) -> Self {
        Self::Failed { reason, class: None, trailing: Trailing::default() }
    }

    /// The same, and what is behind it.
    pub(crate) fn failed_for(class: FailureClass) -> Self {
        Self::Failed { reason: class.reason(), class: Some(class.to_string()), trailing: Trailing::default() }
    }

    /// With what is written with it.
    pub(crate) fn with_trailing(mut self, written: Trailing) -> Self {
        if let Self::Completed { trailing } | Self::Failed { trailing, .. } = &mut self {
            *trailing = written;
        }
        self
    }

    /// Takes what is written with the end out of it.
    pub(crate) fn take_trailing(&mut self) -> Trailing {
        match self {
            Self::Completed { trailing } | Self::Failed { trailing, .. } => std::mem::take(trailing),
            Self::Suspended(_) | Self::Cancelled | Self::HandedBack | Self::Fenced => Trailing::default(),
        }
    }

    /// A defect of ours.
    pub(crate) fn defect(class: impl Into<String>) -> Self {
        Self::Failed { reason: FailureReason::InternalError, class: Some(class.into()), trailing: Trailing::default() }
    }
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        tracing::error!(error = chain(&error), "a run met a defect");
        Self::defect(error.code().as_str())
    }
}

impl From<StopReason> for Outcome {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Draining | StopReason::HandBack => Self::HandedBack,
            StopReason::CancelRequested => Self::Cancelled,
            StopReason::DeadlinePassed => Self::failed(FailureReason::DeadlineExceeded),
            StopReason::Fenced => Self::Fenced,
        }
    }
}

/// Executes a run from wherever its log says that it is.
pub(crate) async fn run_loop(context: &mut RunContext<'_>) -> Outcome {
    loop {
        if let Err(outcome) = step(context).await {
            return outcome;
        }
    }
}

async fn step(context: &mut RunContext<'_>) -> Flow<()> {
    step::check_spent(&context.limits, &context.state.usage)?;
    if !context.state.pending_calls.is_empty() {
        return step::call_tools(context).await;
    }
    context.goes_on()?;
    step::ask_model(context).await
}

impl RunContext<'_> {
    /// A model that goes in circles is stopped before it is asked again.
    fn goes_on(&self) -> Flow<()> {
        // First: the results of calls that were not made are all the same.
        if self.state.cut_off_turns >= CUT_OFF_TURNS_MAX {
            return Err(Outcome::failed_for(FailureClass::OutputTruncated));
        }
        if self.state.same_result.times >= REPETITIONS_MAX {
            return Err(Outcome::failed(FailureReason::ToolLoopDetected));
        }
        if self.state.same_denial.times >= REPETITIONS_MAX {
            return Err(Outcome::failed(FailureReason::RepeatedDenial));
        }
        Ok(())
    }

    /// Folds events, and commits them with the totals of the fold and what changes in the rows of calls. The state is that of the log when this returns; a write that
    /// was refused leaves `written` behind, from which the run is failed.
    pub(crate) async fn append_calls(&mut self, events: Vec<Event>, calls: CallRows) -> Flow<()> {
        self.write(events, calls, ModelRows::default()).await
    }

    /// The same, for a call of the model.
    pub(crate) async fn append_model(&mut self, events: Vec<Event>, model: ModelRows) -> Flow<()> {
        let continuation = model.continuation.clone();
        self.write(events, CallRows::default(), model).await?;
        self.continuations.extend(continuation);
        Ok(())
    }

    async fn write(&mut self, events: Vec<Event>, calls: CallRows, model: ModelRows) -> Flow<()> {
        self.fold(&events)?;
        let totals = self.state.totals();
        let cancel_observed = self.control.reason() == Some(StopReason::CancelRequested);
        let append = Append { events: &events, calls: calls.clone(), model, totals, ending: None, cancel_observed };
        match self.journal.append(&mut self.lease, append).await {
            Ok(()) => {
                self.written = totals;
                self.take_rows(calls);
                Ok(())
            }
            Err(WriteError::Fenced | WriteError::Unanswered) => Err(Outcome::Fenced),
            Err(WriteError::Refused(error)) => {
                tracing::error!(error = chain(&*error), "a write was refused");
                Err(Outcome::defect(error.code().as_str()))
            }
        }
    }

    /// The tool is about to be called: from here on an unmarked call may have had its effect.
    pub(crate) fn begin(&mut self, invocation_id: Uuid) {
        if let Some(invocation) = self.invocations.get_mut(&invocation_id) {
            invocation.begun = true;
        }
    }

    /// What is on record now; what is settled is not looked at again.
    fn take_rows(&mut self, calls: CallRows) {
        self.invocations.extend(calls.new.into_iter().map(|invocation| (invocation.id, invocation)));
        for Moved { id, status, effect_sent } in calls.moved {
            if let Some(invocation) = self.invocations.get_mut(&id) {
                invocation.status = status;
                invocation.effect_sent |= effect_sent;
            }
        }
        self.invocations.retain(|_, invocation| !invocation.status.is_settled());
    }

    pub(crate) fn fold(&mut self, events: &[Event]) -> Flow<()> {
        events.iter().try_for_each(|event| self.state.apply(event)).map_err(|error| Outcome::from(Error::internal(error)))
    }

    /// The boundary of a step or an attempt: here a draining worker lets go, too.
    pub(crate) fn boundary(&self) -> Flow<()> {
        self.control.reason().map_or(Ok(()), |reason| Err(reason.into()))
    }

    /// A point within a step.
    pub(crate) fn check_stop(&self) -> Flow<()> {
        match self.control.reason() {
            Some(reason) if reason.is_immediate() => Err(reason.into()),
            _ => Ok(()),
        }
    }

    /// Waits until the lease is certainly ours, before anything that others would see.
    pub(crate) async fn certainly_ours(&self) -> Flow<()> {
        tokio::select! {
            biased;
            reason = self.control.stopped() => Err(reason.into()),
            () = self.renewal.fresh() => Ok(()),
        }
    }

    /// The same for what must not stop half-way: only a lost lease ends it.
    pub(crate) async fn still_ours(&self) -> Flow<()> {
        tokio::select! {
            biased;
            reason = self.control.stopped_by(StopReason::Fenced) => Err(reason.into()),
            () = self.renewal.fresh() => Ok(()),
        }
    }

    pub(crate) async fn fault(&self, point: Point) -> Flow<()> {
        self.faults.hit(point).await.map_err(Outcome::from)
    }
}
