//! The worker's lease: one statement renews every run that the process owns.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_core::Error;
use baton_core::clock::Clock;
use baton_core::execution::{Queue, WorkerIdentity, Workers};
use baton_core::fault::{Faults, Point};
use tokio::sync::watch;
use uuid::Uuid;

use crate::control::{Executions, StopReason};
use baton_core::error::chain;

/// The part of the lease after which a worker that has not renewed starts no effect and no model call. The rest is for what
/// it began before: a clock that runs slow, a call on its way.
const FRESH_PART: f64 = 0.7;

/// Cheap to clone; clones share the lease.
#[derive(Debug, Clone)]
pub(crate) struct Renewal {
    workers: Workers,
    queue: Queue,
    identity: Arc<Mutex<WorkerIdentity>>,
    lease: Duration,
    executions: Executions,
    clock: Clock,
    faults: Faults,
    renewed: Arc<watch::Sender<Option<Renewed>>>,
}

/// By our monotonic clock.
#[derive(Debug, Clone, Copy)]
struct Renewed {
    /// When the newest renewal that was answered had been sent.
    at: Duration,
    /// Since when there has been no gap between renewals.
    since: Duration,
}

impl Renewal {
    pub(crate) fn new(
        workers: Workers,
        queue: Queue,
        identity: WorkerIdentity,
        lease: Duration,
        executions: Executions,
        clock: Clock,
        faults: Faults,
    ) -> Self {
        let identity = Arc::new(Mutex::new(identity));
        Self { workers, queue, identity, lease, executions, clock, faults, renewed: Arc::new(watch::channel(None).0) }
    }

    pub(crate) fn worker_id(&self) -> Uuid {
        self.identity().id
    }

    pub(crate) async fn register(&self) -> Result<(), Error> {
        let sent = self.clock.elapsed();
        let identity = self.identity();
        self.workers.register(&identity).await?;
        self.renewed.send_replace(Some(Renewed { at: sent, since: sent }));
        tracing::info!(worker_id = %identity.id, "registered");
        Ok(())
    }

    /// One renewal, and what its answer says of the runs: lost, cancelled, or ours without our knowing.
    pub(crate) async fn renew(&self) -> Result<(), Error> {
        self.faults.hit(Point::BeforeRenew).await?;
        let (known, sent, worker_id) = (self.executions.known(), self.clock.elapsed(), self.worker_id());
        let Some(owned) = self.workers.renew(worker_id).await? else {
            return self.begin_anew().await;
        };
        let since = if self.is_fresh() { self.renewed.borrow().map_or(sent, |renewed| renewed.since) } else { sent };
        self.renewed.send_replace(Some(Renewed { at: sent, since }));
        let strays = self.executions.judge(&known, &owned);
        if !strays.is_empty() {
            // Beside the renewals: it may wait for a row, and they must not.
            tokio::spawn(hand_back(self.queue.clone(), worker_id, strays));
        }
        Ok(())
    }

    /// Says goodbye, so that nobody waits for the lease to expire.
    pub(crate) async fn retire(&self) -> Result<(), Error> {
        self.workers.retire(self.worker_id()).await
    }

    /// Whether the lease is certainly ours: renewed lately enough, by our own clock from before the renewal was sent.
    pub(crate) fn is_fresh(&self) -> bool {
        let renewed = *self.renewed.borrow();
        renewed.is_some_and(|renewed| self.clock.elapsed().saturating_sub(renewed.at) < self.lease.mul_f64(FRESH_PART))
    }

    /// Whether renewals have gone on without a gap for so long that every live worker has had its turn, too. After an outage
    /// all leases look expired at once: nobody may be declared dead before all have had a chance to renew.
    pub(crate) fn is_steady(&self, interval: Duration) -> bool {
        let renewed = *self.renewed.borrow();
        self.is_fresh() && renewed.is_some_and(|renewed| self.clock.elapsed().saturating_sub(renewed.since) >= interval)
    }

    /// Waits until the lease is certainly ours.
    pub(crate) async fn fresh(&self) {
        let mut renewed = self.renewed.subscribe();
        while !self.is_fresh() {
            if renewed.changed().await.is_err() {
                return std::future::pending().await; // cannot be: the sender is ours
            }
        }
    }

    /// We were declared dead, for good: every run is lost, and we are another worker.
    async fn begin_anew(&self) -> Result<(), Error> {
        tracing::warn!(worker_id = %self.worker_id(), "declared dead; starting over under a new id");
        // The id first: what a claim registers after the stop sees that it is another's.
        self.identity.lock().unwrap_or_else(PoisonError::into_inner).id = self.clock.new_id();
        self.executions.stop_all(StopReason::Fenced);
        self.register().await
    }

    fn identity(&self) -> WorkerIdentity {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Claims of a run after which it is handed back for later, where it is handed back by this way at all: one that panics whenever
/// it is loaded must not be claimed at every renewal until its deadline.
const PROMPT_CLAIMS_MAX: i32 = 3;
const STRAY_DELAY: Duration = Duration::from_secs(30);

/// Runs that the database says are ours and that nobody here executes: the answer to their claim was lost, or they cannot be
/// executed for the moment. One that has ended meanwhile is left alone.
async fn hand_back(queue: Queue, worker_id: Uuid, strays: Vec<(Uuid, i32)>) {
    let (prompt, later): (Vec<_>, Vec<_>) = strays.into_iter().partition(|(_, epoch)| *epoch <= PROMPT_CLAIMS_MAX);
    for (runs, delay) in [(prompt, Duration::ZERO), (later, STRAY_DELAY)] {
        match queue.release(worker_id, &runs, delay).await {
            Ok(0) => {}
            Ok(count) => tracing::warn!(count, ?runs, "owned and executed by nobody here: handed back"),
            Err(error) => {
                tracing::warn!(error = chain(&error), "strays were not handed back; the next renewal tries again");
            }
        }
    }
}
