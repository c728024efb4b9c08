//! The worker's lease: one statement renews every run that the process owns.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_core::Error;
use baton_core::clock::Clock;
use baton_core::execution::{WorkerIdentity, Workers};
use baton_core::fault::{Faults, Point};
use tokio::sync::watch;
use uuid::Uuid;

use crate::control::{Executions, StopReason};

/// The part of the lease after which a worker that has not renewed starts no effect and no model call. The rest is for what
/// it began before: a clock that runs slow, a call on its way.
const FRESH_PART: f64 = 0.7;

/// Cheap to clone; clones share the lease.
#[derive(Debug, Clone)]
pub(crate) struct Renewal {
    workers: Workers,
    identity: Arc<Mutex<WorkerIdentity>>,
    lease: Duration,
    executions: Executions,
    clock: Clock,
    faults: Faults,
    /// By our monotonic clock, when the newest renewal that was answered had been sent.
    renewed: Arc<watch::Sender<Option<Duration>>>,
}

impl Renewal {
    pub(crate) fn new(
        workers: Workers,
        identity: WorkerIdentity,
        lease: Duration,
        executions: Executions,
        clock: Clock,
        faults: Faults,
    ) -> Self {
        let identity = Arc::new(Mutex::new(identity));
        Self { workers, identity, lease, executions, clock, faults, renewed: Arc::new(watch::channel(None).0) }
    }

    pub(crate) fn worker_id(&self) -> Uuid {
        self.identity().id
    }

    pub(crate) async fn register(&self) -> Result<(), Error> {
        let sent = self.clock.elapsed();
        let identity = self.identity();
        self.workers.register(&identity, self.lease).await?;
        self.renewed.send_replace(Some(sent));
        tracing::info!(worker_id = %identity.id, "registered");
        Ok(())
    }

    /// One renewal, and what its answer says of the runs: lost, cancelled, or ours without our knowing.
    pub(crate) async fn renew(&self) -> Result<(), Error> {
        self.faults.hit(Point::BeforeRenew).await?;
        let (known, sent, worker_id) = (self.executions.known(), self.clock.elapsed(), self.worker_id());
        let Some(owned) = self.workers.renew(worker_id, self.lease).await? else {
            return self.begin_anew().await;
        };
        self.renewed.send_replace(Some(sent));
        let strays = self.executions.judge(&known, &owned);
        if !strays.is_empty() {
            tracing::warn!(runs = ?strays, "owned and executed by nobody here: a claim's answer was lost; handing back");
            self.workers.release(worker_id, &strays).await?;
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
        renewed.is_some_and(|renewed| self.clock.elapsed().saturating_sub(renewed) < self.lease.mul_f64(FRESH_PART))
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
        self.executions.stop_all(StopReason::Fenced);
        self.identity.lock().unwrap_or_else(PoisonError::into_inner).id = self.clock.new_id();
        self.register().await
    }

    fn identity(&self) -> WorkerIdentity {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
