//! A worker without models and tools: it claims, folds, writes and lets go as fast as it can, and now and then it pauses
//! past its lease and goes on writing, or forgets everything.

mod writing;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use baton_core::config::Slots;
use baton_core::execution::{ClaimedRun, Journal, Lease, Queue, Replay, Room, RunState, WorkerIdentity, Workers};
use baton_core::fault::Faults;
use baton_core::notify::Notifier;
use baton_core::runs::RunStatus;
use baton_core::tools::{self, Invocation};
use baton_core::{Principal, Services};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use super::clients;
use super::world::{Stage, World, jitter};

const LEASE: Duration = Duration::from_secs(1);
const RENEW: Duration = Duration::from_millis(250);

/// Runs that it holds at once: nearly all sessions' in the hands of one worker, so that batches and sweeps are of many.
const HELD_MAX: usize = 8;

const BETWEEN_STEPS_MAX: Duration = Duration::from_millis(3);
const IDLE: Duration = Duration::from_millis(10);

/// Longest wait until a run that was given back is due.
const RELEASE_DELAY_MAX: Duration = Duration::from_millis(100);

const ACCIDENTS_APART_MAX: Duration = Duration::from_secs(5);

/// How a pause begins after which the lease is lost, and how long the worker then writes without asking whose the runs are.
const PAUSE: Duration = Duration::from_secs(1);
const ZOMBIE: Duration = Duration::from_millis(1_500);

#[derive(Debug)]
pub(super) struct TortureWorker {
    world: Arc<World>,
    rng: StdRng,
    workers: Workers,
    queue: Queue,
    replay: Replay,
    journal: Journal,
    pool: PgPool,
    observer: PgPool,
    api: Services,
    identity: WorkerIdentity,
    /// By the world's clock. None: not registered.
    renewed: Option<Duration>,
    /// It does not renew before.
    silent_until: Duration,
    accident_at: Duration,
    held: BTreeMap<Uuid, Held>,
    /// What it has given back, and as an execution that hangs will still write to.
    ghosts: Vec<Held>,
    /// Leases whose release was acknowledged.
    given_back: Vec<(Uuid, i32)>,
}

/// A run that it executes.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) lease: Lease,
    principal: Principal,
    pub(super) state: RunState,
    /// Of its calls, those that are not settled.
    pub(super) invocations: HashMap<Uuid, Invocation>,
    /// The step of the model's call that the last write began. What another has begun stays charged as it was held.
    pub(super) asked: Option<u32>,
    /// Nothing is written under this lease.
    pub(super) is_new: bool,
    pub(super) cancel_requested: bool,
}

impl TortureWorker {
    /// `renewals` is how to connect beside the pool, as in the product; `observer` sees the rows as they are, whatever happens
    /// to the wire; `api` is asked to cancel what this worker is writing to.
    pub(super) fn new(world: &Arc<World>, pool: PgPool, renewals: PgConnectOptions, observer: PgPool, api: Services) -> Self {
        let mut rng = world.rng();
        let accident_at = ACCIDENTS_APART_MAX.mul_f64(rng.random());
        Self {
            world: Arc::clone(world),
            rng,
            workers: Workers::new(renewals, LEASE),
            queue: Queue::new(pool.clone(), Notifier::off(), Some(4)),
            replay: Replay::new(pool.clone(), 1_000),
            journal: Journal::start(pool.clone(), Notifier::off(), Faults::default()),
            pool,
            observer,
            api,
            identity: WorkerIdentity {
                id: world.clock().new_id(),
                hostname: "torture".into(),
                pid: std::process::id(),
                version: "1".into(),
                slots: Slots::default(),
            },
            renewed: None,
            silent_until: Duration::ZERO,
            accident_at,
            held: BTreeMap::new(),
            ghosts: Vec::new(),
            given_back: Vec::new(),
        }
    }

    pub(super) async fn run(mut self) {
        while self.world.stage() != Stage::Over {
            self.renew_when_due().await;
            if self.world.stage() == Stage::Torture {
                self.have_an_accident().await;
            }
            if self.renewed.is_some() && self.held.len() < HELD_MAX && (self.held.is_empty() || self.rng.random_bool(0.4)) {
                self.claim().await;
            }
            if self.held.is_empty() {
                tokio::time::sleep(IDLE).await;
            } else {
                jitter(&mut self.rng, BETWEEN_STEPS_MAX).await;
                self.step().await;
            }
        }
    }

    async fn renew_when_due(&mut self) {
        let now = self.world.clock().elapsed();
        match self.renewed {
            None => match self.workers.register(&self.identity).await {
                Ok(()) => self.renewed = Some(now),
                Err(error) => self.world.judge("register", &error),
            },
            Some(renewed) if now < self.silent_until || now < renewed + RENEW => {}
            Some(_) => match self.workers.renew(self.identity.id).await {
                Ok(Some(owned)) => {
                    self.renewed = Some(now);
                    let mut strays = Vec::new();
                    for run in &owned {
                        match self.held.get_mut(&run.run_id).filter(|held| held.lease.epoch() == run.epoch) {
                            Some(held) => held.cancel_requested |= run.cancel_requested,
                            None => strays.push((run.run_id, run.epoch)),
                        }
                    }
                    self.held.retain(|id, held| owned.iter().any(|run| run.run_id == *id && run.epoch == held.lease.epoch()));
                    self.world.count_by("strays", strays.len() as u64);
                    self.release(&strays, Duration::ZERO).await;
                }
                Ok(None) => {
                    self.world.count("declared dead");
                    // It may have been writing when it was told so.
                    let all = std::mem::take(&mut self.held).into_values().collect();
                    self.write(all, &[]).await;
                    self.begin_anew();
                }
                Err(error) => self.world.judge("renew", &error),
            },
        }
    }

    async fn have_an_accident(&mut self) {
        let now = self.world.clock().elapsed();
        if now < self.accident_at {
            return;
        }
        self.accident_at = now + ACCIDENTS_APART_MAX.mul_f64(self.rng.random_range(0.2..1.0));
        match self.rng.random_range(0..10) {
            0..4 => {
                self.world.count("crashes");
                self.begin_anew();
            }
            4..8 => {
                self.world.count("pauses");
                tokio::time::sleep(PAUSE.mul_f64(self.rng.random_range(1.0..1.6))).await;
                self.silent_until = self.world.clock().elapsed() + ZOMBIE;
            }
            _ => {
                self.world.count("shutdowns");
                let all: Vec<(Uuid, i32)> = self.held.iter().map(|(id, held)| (*id, held.lease.epoch())).collect();
                self.release(&all, Duration::ZERO).await;
                if let Err(error) = self.workers.retire(self.identity.id).await {
                    self.world.judge("retire", &error);
                }
                self.begin_anew();
            }
        }
    }

    /// Forgets everything. What the worker before owned, it owns.
    fn begin_anew(&mut self) {
        self.held.clear();
        self.ghosts.clear();
        self.given_back.clear();
        self.renewed = None;
        self.silent_until = Duration::ZERO;
        self.identity.id = self.world.clock().new_id();
    }

    async fn claim(&mut self) {
        let room = Room { floors: [0; 3].map(|_: i32| self.rng.random_range(0..3)), shared: self.rng.random_range(1..3) };
        match self.queue.claim(self.identity.id, room).await {
            Ok(claimed) => {
                for run in claimed {
                    self.hold(run).await;
                }
            }
            Err(error) => self.world.judge("claim", &error),
        }
    }

    async fn hold(&mut self, run: ClaimedRun) {
        let (id, epoch) = (run.lease.run_id(), run.lease.epoch());
        self.world.count("claimed");
        self.world.remember(|facts| facts.claimed.push((id, epoch)));
        let read = async { Ok((self.replay.state_of(&run).await?, tools::unsettled(&self.pool, id).await?)) };
        match read.await {
            Ok((state, _)) if state.claims < epoch => {
                self.world.wrong(format!("run {id} was claimed and its log does not say so: {state:?}"));
            }
            Ok((state, _)) if state.claims > epoch || state.status != RunStatus::Running => {
                self.world.count("lost before it was folded");
            }
            Ok((state, invocations)) => {
                let ClaimedRun { lease, principal, cancel_requested, .. } = run;
                self.held.insert(id, Held { lease, principal, state, invocations, asked: None, is_new: true, cancel_requested });
            }
            // Owned and held by nobody: the next renewal finds it.
            Err(error) => self.world.judge("fold", &error),
        }
    }

    /// Writes to some of the runs, gives some back, does both at once while one of them is cancelled, or writes to what it has
    /// given back.
    async fn step(&mut self) {
        let mut batch: Vec<Uuid> = self.held.keys().copied().collect();
        batch.shuffle(&mut self.rng);
        batch.truncate(self.rng.random_range(1..=batch.len()));
        let mut batch: Vec<Held> = batch.iter().filter_map(|id| self.held.remove(id)).collect();
        let leases: Vec<(Uuid, i32)> = batch.iter().map(|held| (held.lease.run_id(), held.lease.epoch())).collect();
        match self.rng.random_range(0..100) {
            0..5 if self.world.stage() == Stage::Torture => {
                self.release_again().await;
                let delay = RELEASE_DELAY_MAX.mul_f64(self.rng.random());
                if self.release(&leases, delay).await {
                    self.given_back.extend(leases);
                }
                self.ghosts.extend(batch);
            }
            5..15 if self.world.stage() == Stage::Torture => {
                let (principal, run) = (batch[0].principal.clone(), batch[0].lease.run_id());
                let (world, api) = (Arc::clone(&self.world), self.api.clone());
                let cancelled = async move { clients::cancel(&world, &api, &principal, run).await };
                let (left, ()) = tokio::join!(self.write(batch, &leases), cancelled);
                self.ghosts.extend(left);
            }
            chance => {
                if chance < 30 {
                    self.world.count_by("writes after release", self.ghosts.len() as u64);
                    batch.append(&mut self.ghosts);
                }
                let left = self.write(batch, &[]).await;
                let ours = left.into_iter().map(|held| (held.lease.run_id(), held));
                self.held.extend(ours.filter(|(id, held)| leases.contains(&(*id, held.lease.epoch()))));
            }
        }
    }

    /// Whether it was acknowledged.
    async fn release(&self, leases: &[(Uuid, i32)], delay: Duration) -> bool {
        if leases.is_empty() {
            return true;
        }
        let released = self.queue.release(self.identity.id, leases, delay).await;
        match &released {
            Ok(released) => self.world.count_by("released", *released as u64),
            Err(error) => self.world.judge("release", error),
        }
        released.is_ok()
    }

    /// Nothing of what was given back is ours, whoever has it now.
    async fn release_again(&mut self) {
        let given_back = std::mem::take(&mut self.given_back);
        match self.queue.release(self.identity.id, &given_back, Duration::ZERO).await {
            Ok(0) => self.world.count_by("releases again", given_back.len() as u64),
            Ok(released) => self.world.wrong(format!("{released} of {given_back:?} were released twice")),
            Err(error) => self.world.judge("release", &error),
        }
    }
}
