//! What can stop an execution, and who tells it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_core::execution::OwnedRun;
use tokio::sync::watch;
use uuid::Uuid;

/// Why an execution stops. Later ones are more urgent and replace earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopReason {
    /// The worker shuts down: stop at the next boundary of a step.
    Draining,
    CancelRequested,
    DeadlinePassed,
    /// The time to drain is over: hand the run back at once.
    HandBack,
    /// The lease is lost: write nothing more.
    Fenced,
}

impl StopReason {
    /// Whether a step in progress stops, too.
    pub(crate) fn is_immediate(self) -> bool {
        self > Self::Draining
    }
}

/// The one token of an execution: set by the heartbeat, the deadline, the shutdown or the fence.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    epoch: i32,
    reason: Arc<watch::Sender<Option<StopReason>>>,
}

impl Control {
    pub(crate) fn stop(&self, reason: StopReason) {
        self.reason.send_if_modified(|current| {
            let urgent = current.is_none_or(|current| reason > current);
            if urgent {
                *current = Some(reason);
            }
            urgent
        });
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        *self.reason.borrow()
    }

    /// Waits for a reason to stop a step in progress.
    pub(crate) async fn stopped(&self) -> StopReason {
        self.stopped_by(StopReason::CancelRequested).await
    }

    /// Waits for a reason at least as urgent as this one.
    pub(crate) async fn stopped_by(&self, least: StopReason) -> StopReason {
        let mut reasons = self.reason.subscribe();
        match reasons.wait_for(|reason| reason.is_some_and(|reason| reason >= least)).await.map(|reason| *reason) {
            Ok(Some(reason)) => reason,
            Ok(None) | Err(_) => std::future::pending().await, // cannot be: the sender is ours
        }
    }
}

/// The executions of this process, and the claims that are on their way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Executions {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    running: HashMap<Uuid, Control>,
    /// Claims begun so far, and whether one is on its way.
    claims: u64,
    claiming: bool,
    draining: bool,
}

/// A claim on its way.
#[derive(Debug)]
pub(crate) struct Claiming<'a>(&'a Executions);

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        self.0.inner().claiming = false;
    }
}

/// What was known before a renewal was sent: only that may be judged by its answer.
#[derive(Debug)]
pub(crate) struct Known {
    running: HashMap<Uuid, Control>,
    /// None: a claim was on its way, whose runs the answer may show.
    claims: Option<u64>,
}

impl Executions {
    /// A claim begins; it is over, and its runs are registered, when the answer is dropped.
    pub(crate) fn claiming(&self) -> Claiming<'_> {
        let mut inner = self.inner();
        inner.claims += 1;
        inner.claiming = true;
        Claiming(self)
    }

    pub(crate) fn register(&self, run_id: Uuid, epoch: i32) -> Control {
        let mut inner = self.inner();
        let control = Control { epoch, reason: Arc::new(watch::channel(inner.draining.then_some(StopReason::Draining)).0) };
        // The run was lost and claimed again before a renewal could say so: no later one will.
        if let Some(lost) = inner.running.insert(run_id, control.clone()) {
            lost.stop(StopReason::Fenced);
        }
        control
    }

    /// Forgets one execution; a later one of the same run, under a later epoch, stays.
    pub(crate) fn remove(&self, run_id: Uuid, epoch: i32) {
        let mut inner = self.inner();
        if inner.running.get(&run_id).is_some_and(|control| control.epoch == epoch) {
            inner.running.remove(&run_id);
        }
    }

    pub(crate) fn known(&self) -> Known {
        let inner = self.inner();
        Known { running: inner.running.clone(), claims: (!inner.claiming).then_some(inner.claims) }
    }

    /// Judges what was known by what the database says is owned: stops what is lost, passes requests to cancel on, and
    /// returns what is owned and executed by nobody here: a claim whose answer was lost.
    pub(crate) fn judge(&self, known: &Known, owned: &[OwnedRun]) -> Vec<(Uuid, i32)> {
        for (run_id, control) in &known.running {
            match owned.iter().find(|run| run.run_id == *run_id && run.epoch == control.epoch) {
                None => control.stop(StopReason::Fenced),
                Some(run) if run.cancel_requested => control.stop(StopReason::CancelRequested),
                Some(_) => {}
            }
        }
        let inner = self.inner();
        if inner.claiming || known.claims != Some(inner.claims) {
            return Vec::new();
        }
        let is_stray = |run: &&OwnedRun| inner.running.get(&run.run_id).is_none_or(|control| control.epoch != run.epoch);
        owned.iter().filter(is_stray).map(|run| (run.run_id, run.epoch)).collect()
    }

    pub(crate) fn has(&self, run_id: Uuid) -> bool {
        self.inner().running.contains_key(&run_id)
    }

    pub(crate) fn stop_all(&self, reason: StopReason) {
        let mut inner = self.inner();
        inner.draining |= reason == StopReason::Draining;
        inner.running.values().for_each(|control| control.stop(reason));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner().running.is_empty()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
