//! One execution of one run: from a claim to its end, its suspension or its loss. Nothing that happens in it takes down
//! anything else.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use baton_core::Error;
use baton_core::agents::Versions;
use baton_core::clock::Clock;
use baton_core::execution::{ClaimedRun, Journal, Queue, Replay, RunState};
use baton_core::fault::{Faults, Point};
use baton_core::models;
use baton_core::notify::Notifier;
use baton_core::tools::pipeline::{OnBehalf, Pipeline};
use baton_core::tools::{Invocation, unsettled};
use futures::FutureExt;
use sqlx::PgPool;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;
use uuid::Uuid;

use crate::choice::Choices;
use crate::control::{Control, Executions, StopReason};
use crate::finish::{End, finish};
use crate::models::Continuation;
use crate::offer::{Offer, Offers};
use crate::renewal::Renewal;
use crate::run_loop::{Outcome, RunContext, Trailing, run_loop};
use baton_core::error::chain;

/// Wait before the log is read again that the database could not give.
const READ_AGAIN_WAIT: Duration = Duration::from_secs(1);

/// How long a run whose log this build does not read stays out of the queue: a build that reads it may take it then, and two
/// claims a minute are what it costs until its deadline.
const UNREADABLE_DELAY: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) versions: Versions,
    pub(crate) replay: Replay,
    pub(crate) pipeline: Pipeline,
    pub(crate) choices: Choices,
    pub(crate) offers: Offers,
    pub(crate) question_ttl: Duration,
    pub(crate) pool: PgPool,
    pub(crate) journal: Journal,
    pub(crate) queue: Queue,
    pub(crate) notifier: Notifier,
    pub(crate) clock: Clock,
    pub(crate) renewal: Renewal,
    pub(crate) executions: Executions,
    pub(crate) faults: Faults,
}

/// Where a run stands, and for whom it goes on.
struct Loaded {
    state: RunState,
    invocations: HashMap<Uuid, Invocation>,
    continuations: BTreeMap<u32, Continuation>,
    on_behalf: OnBehalf,
    offer: Offer,
}

/// The execution is known to the renewal until this is dropped, however it ends.
struct Registered<'a> {
    executions: &'a Executions,
    run_id: Uuid,
    epoch: i32,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.executions.remove(self.run_id, self.epoch);
    }
}

impl Supervisor {
    pub(crate) async fn execute(&self, run: ClaimedRun, control: Control) {
        let (run_id, epoch) = (run.lease.run_id(), run.lease.epoch());
        let _registered = Registered { executions: &self.executions, run_id, epoch };
        let _deadline = stop_at_deadline(&run, control.clone());
        let span = tracing::info_span!("agent.run", %run_id, session_id = %run.lease.session_id(), epoch);
        let execution = AssertUnwindSafe(self.load_and_run(run, control).instrument(span));
        if execution.catch_unwind().await.is_err() {
            // The run stays ours and executed by nobody: the renewal finds it and hands it back.
            tracing::error!(%run_id, "a panic outside of a run's own code");
        }
    }

    async fn load_and_run(&self, run: ClaimedRun, control: Control) {
        if run.cancel_requested {
            control.stop(StopReason::CancelRequested);
        }
        let Loaded { state, invocations, continuations, on_behalf, offer } = match self.load(&run, &control).await {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return self.end_unread(run, &control).await,
            Err(error) => {
                tracing::error!(error = chain(&error), "the run's log does not read in this build");
                return self.end_unread(run, &control).await;
            }
        };
        let mut context = RunContext {
            lease: run.lease,
            written: state.totals(),
            state,
            invocations,
            continuations,
            on_behalf: Arc::new(on_behalf),
            offer,
            limits: run.limits,
            question_ttl: self.question_ttl,
            control,
            choices: &self.choices,
            pipeline: &self.pipeline,
            journal: &self.journal,
            notifier: &self.notifier,
            clock: &self.clock,
            renewal: &self.renewal,
            faults: &self.faults,
        };
        let outcome = AssertUnwindSafe(run_loop(&mut context)).catch_unwind().await.unwrap_or_else(|_| Outcome::defect("panic"));
        finish(&mut context, outcome).await;
    }

    /// None: it was told to stop before the database answered.
    async fn load(&self, run: &ClaimedRun, control: &Control) -> Result<Option<Loaded>, Error> {
        loop {
            match self.read(run).await {
                Err(error @ Error::Unavailable { .. }) => {
                    tracing::warn!(error = chain(&error), "the run's log could not be read; trying again");
                    tokio::select! {
                        _ = control.stopped() => return Ok(None),
                        () = tokio::time::sleep(READ_AGAIN_WAIT) => {}
                    }
                }
                read => return read.map(Some),
            }
        }
    }

    async fn read(&self, run: &ClaimedRun) -> Result<Loaded, Error> {
        let agent = self.versions.get(&run.agent_id, &run.agent_version).await?;
        let state = self.replay.state_of(run).await?;
        let has_calls = state.pending_calls.iter().any(|pending| pending.proposal.is_some());
        let invocations = if has_calls { unsettled(&self.pool, run.lease.run_id()).await? } else { HashMap::new() };
        // The first turn has nothing to hand back.
        let has_turns = state.turns > 0;
        let continuations =
            if has_turns { models::continuations(&self.pool, run.lease.run_id()).await? } else { BTreeMap::new() };
        let offer = self.offers.of(&run.agent_version, &agent, &self.pipeline.tools);
        let on_behalf = OnBehalf {
            run_id: run.lease.run_id(),
            session_id: run.lease.session_id(),
            principal: run.principal.clone(),
            policy: self.pipeline.profiles.policy_of(&agent.policy_profile, &agent.policy),
            agent,
            agent_version: run.agent_version.clone(),
        };
        self.faults.hit(Point::AfterFold).await?;
        Ok(Loaded { state, invocations, continuations, on_behalf, offer })
    }

    /// A run whose log was not read: what ends it without its log does, from the totals of its row; else it goes back to the
    /// queue, for later.
    async fn end_unread(&self, mut run: ClaimedRun, control: &Control) {
        let (outcome, cancel_observed) = match control.reason() {
            Some(reason @ (StopReason::CancelRequested | StopReason::DeadlinePassed)) => {
                (reason.into(), reason == StopReason::CancelRequested)
            }
            Some(StopReason::Fenced) => return,
            Some(StopReason::Draining | StopReason::HandBack) | None => {
                let lease = &run.lease;
                let delayed =
                    self.queue.release(self.renewal.worker_id(), &[(lease.run_id(), lease.epoch())], UNREADABLE_DELAY).await;
                if let Err(error) = delayed {
                    tracing::warn!(error = chain(&error), "not handed back; the renewal tries again");
                }
                return;
            }
        };
        // What its calls have done is to be on record, whatever its log says.
        let invocations = match unsettled(&self.pool, run.lease.run_id()).await {
            Ok(invocations) => invocations,
            Err(error) => {
                tracing::warn!(error = chain(&error), "the calls of a run that is to end do not read");
                return;
            }
        };
        let (journal, clock) = (&self.journal, &self.clock);
        let mut end = End { lease: &mut run.lease, journal, clock, invocations: &invocations, cancel_observed };
        if let Err(error) = end.write(Trailing::default(), run.totals, outcome).await {
            tracing::warn!(error = chain(&error), "a run whose log does not read could not be ended");
        }
    }
}

/// At once for a run that was claimed after its deadline: nothing of it may be begun.
fn stop_at_deadline(run: &ClaimedRun, control: Control) -> AbortOnDropHandle<()> {
    let deadline_in = run.deadline_in;
    if deadline_in.is_zero() {
        control.stop(StopReason::DeadlinePassed);
    }
    AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::time::sleep(deadline_in).await;
        control.stop(StopReason::DeadlinePassed);
    }))
}
