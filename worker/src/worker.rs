//! The worker: claims what is due, as far as it has free slots, and executes it.
//!
//! [`Worker::run`] is the loop of a process. Tests drive the same steps one at a time: [`Worker::register`],
//! [`Worker::tick`], [`Worker::renew`], [`Worker::sweep`].

use std::sync::Arc;
use std::time::Duration;

use baton_core::Error;
use baton_core::agents::Versions;
use baton_core::clock::Clock;
use baton_core::config::Config;
use baton_core::db::{self, Role};
use baton_core::execution::maintenance::{Maintenance, Swept};
use baton_core::execution::{ClaimedRun, Journal, Queue, Replay, Room, WorkerIdentity, Workers};
use baton_core::fault::{Faults, Point};
use baton_core::models::Policies;
use baton_core::notify::{Channel, Heard, Listener, Notifier, Ways};
use baton_core::tools::pipeline::Pipeline;
use rand::Rng;
use sqlx::PgPool;
use tokio::sync::{Mutex, Notify};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::choice::Choices;
use crate::control::{Executions, StopReason};
use crate::offer::Offers;
use crate::renewal::Renewal;
use crate::slots::Slots;
use crate::supervisor::Supervisor;
use baton_core::error::chain;

/// Cheap to clone; clones are the same worker.
#[derive(Debug, Clone)]
pub struct Worker {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) faults: Faults,
    pub(crate) renewal: Renewal,
    pub(crate) executions: Executions,
    supervisor: Arc<Supervisor>,
    queue: Queue,
    notifier: Notifier,
    slots: Slots,
    /// A run may be due.
    wake: Arc<Notify>,
    /// A run may have been asked to cancel.
    renew_now: Arc<Notify>,
    maintenance: Arc<Mutex<Maintenance>>,
    ways: Option<Ways>,
}

impl Worker {
    /// A worker on a pool, with connections of its own for renewing, listening and notifying. Clock and fault points are those
    /// of the pipeline.
    ///
    /// # Errors
    /// `Malformed` where the database's URL is; `Internal` where the model policies are not those of a checked configuration.
    pub fn new(config: &Config, hostname: String, pool: PgPool, pipeline: Pipeline) -> Result<Self, Error> {
        let (clock, faults) = (pipeline.clock.clone(), pipeline.faults.clone());
        let artifacts = pipeline.artifacts.clone();
        let ways = db::ways(&config.database, Role::Worker)?;
        let notifier = ways.as_ref().map_or_else(Notifier::off, |ways| Notifier::start(&ways.notify));
        let identity = WorkerIdentity {
            id: clock.new_id(),
            hostname,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            slots: config.worker.slots,
        };
        let executions = Executions::default();
        let queue = Queue::new(pool.clone(), notifier.clone(), config.tenant.max_running);
        let workers = Workers::new(db::options(&config.database, Role::Worker)?, config.worker.lease);
        let renewal = Renewal::new(
            workers,
            queue.clone(),
            identity,
            config.worker.lease,
            executions.clone(),
            clock.clone(),
            faults.clone(),
        );
        let supervisor = Supervisor {
            versions: Versions::new(pool.clone()),
            replay: Replay::new(pool.clone(), config.execution.history_tokens),
            pipeline,
            choices: Choices::new(&Policies::new(config).map_err(Error::internal)?)?,
            offers: Offers::default(),
            question_ttl: config.execution.question_ttl,
            pool: pool.clone(),
            journal: Journal::start(pool.clone(), notifier.clone(), faults.clone()),
            queue: queue.clone(),
            notifier: notifier.clone(),
            clock: clock.clone(),
            renewal: renewal.clone(),
            executions: executions.clone(),
            faults: faults.clone(),
        };
        Ok(Self {
            config: config.clone(),
            clock,
            faults,
            renewal,
            executions,
            supervisor: Arc::new(supervisor),
            queue,
            notifier: notifier.clone(),
            slots: Slots::new(config.worker.slots),
            wake: Arc::default(),
            renew_now: Arc::default(),
            maintenance: Arc::new(Mutex::new(
                Maintenance::new(pool, notifier, artifacts, config.execution.lease_losses_max)
                    .with_retention(config.retention.days),
            )),
            ways,
        })
    }

    /// Executes runs until the token is cancelled; then drains, hands back what is left, and returns. To be registered first.
    ///
    /// # Errors
    /// `Internal` where a task beside the loop ended, which none does by itself: a worker that renews or listens no more must
    /// not go on, and whoever supervises the process starts it again.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let mut beside = JoinSet::new();
        beside.spawn(self.clone().renew_for_ever());
        beside.spawn(self.clone().sweep_for_ever());
        beside.spawn(self.clone().hear_for_ever());
        while !shutdown.is_cancelled() {
            // Interest is registered before the query: a wake-up in between is not lost.
            let woken = self.wake.notified();
            let room = self.slots.room();
            // With room for every class a claim of nothing has seen all that is due: a slot more changes nothing. The room is
            // that of the claim: a slot that was freed since has been notified of, and may be all that the next run waits for.
            let waits_for_slots = match self.claim(room).await {
                Ok(started) if started.is_empty() => room.is_tight(),
                Ok(_) if !self.slots.room().is_empty() => continue, // a claim may take less than there is
                Ok(_) => true,
                Err(error) => {
                    tracing::warn!(error = chain(&error), "cannot claim; trying again");
                    false
                }
            };
            tokio::select! {
                () = woken => {}
                () = self.slots.freed(), if waits_for_slots => {}
                () = tokio::time::sleep(jittered(self.config.worker.poll_interval)) => {}
                () = shutdown.cancelled() => {}
                ended = beside.join_next() => {
                    tracing::error!(?ended, "a task beside the loop has ended");
                    return Err(Error::internal("a task of the worker has ended"));
                }
            }
        }
        let is_empty = self.drain().await; // while renewals go on, and cancellations are seen
        beside.shutdown().await; // or the next renewal would find us retired, and begin anew
        if is_empty {
            self.retire().await;
        }
        self.notifier.flush().await;
        Ok(())
    }

    /// Makes the process known. Nothing can be claimed before.
    ///
    /// # Errors
    /// The database's.
    pub async fn register(&self) -> Result<(), Error> {
        self.renewal.register().await
    }

    /// One claim, and everything that it took executed to its end or its loss. How many runs that was.
    ///
    /// # Errors
    /// The database's.
    pub async fn tick(&self) -> Result<usize, Error> {
        let started = self.claim(self.slots.room()).await?;
        let count = started.len();
        for execution in started {
            let _ = execution.await; // a panic was caught inside; what is left is the end of the runtime
        }
        Ok(count)
    }

    /// One renewal of the worker's lease.
    ///
    /// # Errors
    /// The database's.
    pub async fn renew(&self) -> Result<(), Error> {
        self.renewal.renew().await
    }

    /// One pass of maintenance; none where another worker is at it.
    ///
    /// # Errors
    /// The database's.
    pub async fn sweep(&self) -> Result<Option<Swept>, Error> {
        self.maintenance.lock().await.pass(self.clock.elapsed()).await
    }

    /// Claims up to the room, and starts what it got.
    async fn claim(&self, room: Room) -> Result<Vec<JoinHandle<()>>, Error> {
        if room.is_empty() || !self.renewal.is_fresh() {
            return Ok(Vec::new());
        }
        let claiming = self.executions.claiming();
        let worker_id = self.renewal.worker_id();
        let claimed = self.queue.claim(worker_id, room).await?;
        if !claimed.is_empty() {
            self.faults.hit(Point::AfterClaim).await?;
        }
        let started = claimed.into_iter().map(|run| self.start(run, worker_id)).collect();
        drop(claiming);
        Ok(started)
    }

    fn start(&self, run: ClaimedRun, worker_id: Uuid) -> JoinHandle<()> {
        let slot = self.slots.take(run.priority);
        let control = self.executions.register(run.lease.run_id(), run.lease.epoch());
        if self.renewal.worker_id() != worker_id {
            // Declared dead while the claim's answer was on its way, after all that was known then was fenced: the lease that
            // is fresh by now is another's.
            control.stop(StopReason::Fenced);
        }
        let supervisor = Arc::clone(&self.supervisor);
        tokio::spawn(async move {
            supervisor.execute(run, control).await;
            drop(slot);
        })
    }

    async fn renew_for_ever(self) {
        loop {
            let wait = match self.renew().await {
                Ok(()) => self.config.worker.renew,
                Err(error) => {
                    tracing::warn!(error = chain(&error), "cannot renew the lease; trying again");
                    self.config.worker.renew / 6
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.renew_now.notified() => {}
            }
        }
    }

    async fn sweep_for_ever(self) {
        loop {
            if self.renewal.is_steady(self.config.worker.renew)
                && let Err(error) = self.sweep().await
            {
                tracing::warn!(error = chain(&error), "maintenance did not finish; trying again");
            }
            tokio::time::sleep(jittered(self.config.worker.sweep_interval)).await;
        }
    }

    async fn hear_for_ever(self) {
        let Some(ways) = self.ways.clone() else { return std::future::pending().await };
        let mut listener = Listener::new(ways, &[Channel::Queue, Channel::Control]);
        loop {
            match listener.next().await {
                Heard::Listening | Heard::Hint { channel: Channel::Queue, .. } => self.wake.notify_one(),
                // Anybody may notify: whether it is true the renewal reads from the run's row.
                Heard::Hint { channel: Channel::Control, payload }
                    if payload.parse().is_ok_and(|run_id| self.executions.has(run_id)) =>
                {
                    self.renew_now.notify_one();
                }
                Heard::Lost => tracing::warn!("the listening connection is gone; polling until it is back"),
                Heard::Hint { .. } => {}
            }
        }
    }
}

/// So that workers that were started together do not ask together.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(rand::rng().random_range(0.8..1.2))
}
