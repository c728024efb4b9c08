//! One execution of one run: from a claim to its end, its suspension or its loss. Nothing that happens in it takes down
//! anything else.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use baton_core::Error;
use baton_core::agents::{AgentDefinition, Versions};
use baton_core::clock::Clock;
use baton_core::execution::{ClaimedRun, Journal, Replay, RunState};
use baton_core::fault::{Faults, Point};
use baton_core::notify::Notifier;
use futures::FutureExt;
use tracing::Instrument;

use crate::control::{Control, Executions, StopReason};
use crate::finish::finish;
use crate::renewal::Renewal;
use crate::run_loop::{Outcome, RunContext, run_loop};

/// How long a run whose log does not read is kept from the queue: a build that understands it may take it then, and two
/// events in so long a time are what it costs until its deadline.
const UNREADABLE_HOLD: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) versions: Versions,
    pub(crate) replay: Replay,
    pub(crate) journal: Journal,
    pub(crate) notifier: Notifier,
    pub(crate) clock: Clock,
    pub(crate) renewal: Renewal,
    pub(crate) executions: Executions,
    pub(crate) faults: Faults,
}

impl Supervisor {
    pub(crate) async fn execute(&self, run: ClaimedRun, control: Control) {
        let (run_id, epoch) = (run.lease.run_id(), run.lease.epoch());
        let span = tracing::info_span!("agent.run", %run_id, session_id = %run.lease.session_id(), epoch);
        let deadline = tokio::spawn({
            let (control, deadline_in) = (control.clone(), run.deadline_in);
            async move {
                tokio::time::sleep(deadline_in).await;
                control.stop(StopReason::DeadlinePassed);
            }
        });
        self.settle(run, control).instrument(span).await;
        deadline.abort();
        self.executions.remove(run_id, epoch);
    }

    async fn settle(&self, run: ClaimedRun, control: Control) {
        if run.cancel_requested {
            control.stop(StopReason::CancelRequested);
        }
        let loaded = self.load(&run).await;
        let mut context = match loaded {
            Ok((state, agent)) => RunContext {
                lease: run.lease,
                state,
                agent,
                limits: run.limits,
                control,
                journal: &self.journal,
                notifier: &self.notifier,
                clock: &self.clock,
                renewal: &self.renewal,
                faults: &self.faults,
            },
            Err(error) => return not_loaded(&error, &control).await,
        };
        let outcome = AssertUnwindSafe(run_loop(&mut context)).catch_unwind().await.unwrap_or_else(|_| Outcome::defect("panic"));
        finish(&mut context, outcome).await;
    }

    async fn load(&self, run: &ClaimedRun) -> Result<(RunState, Arc<AgentDefinition>), Error> {
        let agent = self.versions.get(&run.agent_id, &run.agent_version).await?;
        let state = self.replay.state_of(run).await?;
        self.faults.hit(Point::AfterFold).await?;
        Ok((state, agent))
    }
}

/// Nothing is written: it could contradict what is there. The run stays ours and executed by nobody, so the next renewal hands
/// it back.
async fn not_loaded(error: &Error, control: &Control) {
    if matches!(error, Error::Unavailable { .. }) {
        tracing::warn!(error = error as &dyn std::error::Error, "the run's log could not be read; handing it back");
        return;
    }
    tracing::error!(error = error as &dyn std::error::Error, "the run's log does not read in this build; holding it");
    tokio::select! {
        _ = control.stopped() => {}
        () = tokio::time::sleep(UNREADABLE_HOLD) => {}
    }
}
