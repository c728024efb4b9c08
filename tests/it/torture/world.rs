//! What the actors share: where the test is, the sessions that they fight for, and what they have seen.

use std::collections::{BTreeMap, VecDeque};
use std::error::Error as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_core::clock::Clock;
use baton_core::sessions::CreateSession;
use baton_core::{Error, Principal, Scope, Services};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use uuid::Uuid;

use super::facts::Facts;

/// Few enough that everything collides.
const SESSIONS: usize = 10;
const TENANTS: usize = 3;

/// Runs that a canceller chooses from: most of them have not ended yet.
const RECENT_MAX: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Torture,
    /// No more clients and no more accidents: what is there is brought to its end.
    Drain,
    Over,
}

#[derive(Debug)]
pub(super) struct World {
    clock: Clock,
    stage: watch::Sender<Stage>,
    seed: AtomicU64,
    principals: Vec<Principal>,
    seats: Mutex<Vec<(Principal, Uuid)>>,
    recent: Mutex<VecDeque<(Principal, Uuid)>>,
    facts: Mutex<Facts>,
    counts: Mutex<BTreeMap<String, u64>>,
    wrong: Mutex<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let principal = |tenant| Principal::new(format!("t{tenant}"), "p", Scope::ALL.iter().copied()).unwrap();
        Self {
            clock: Clock::system(),
            stage: watch::channel(Stage::Torture).0,
            seed: AtomicU64::new(seed),
            principals: (0..TENANTS).map(principal).collect(),
            seats: Mutex::default(),
            recent: Mutex::default(),
            facts: Mutex::default(),
            counts: Mutex::default(),
            wrong: Mutex::default(),
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    pub(super) fn enter(&self, stage: Stage) {
        self.stage.send_replace(stage);
    }

    /// Each actor's own.
    pub(super) fn rng(&self) -> StdRng {
        StdRng::seed_from_u64(self.seed.fetch_add(1, Ordering::Relaxed))
    }

    /// Fills the seats, over a wire that is cut already.
    pub(super) async fn seat(&self, api: &Services) {
        for number in 0..SESSIONS {
            let principal = &self.principals[number % TENANTS];
            let session = loop {
                match api.sessions.create(principal, None, demo()).await {
                    Ok(created) => break created.session.id,
                    Err(Error::Unavailable { .. }) => {}
                    Err(error) => panic!("no session to begin with: {error}"),
                }
            };
            self.seats.lock().unwrap().push((principal.clone(), session));
        }
    }

    pub(super) fn session(&self, rng: &mut StdRng) -> (Principal, Uuid) {
        let seats = self.seats.lock().unwrap();
        seats[rng.random_range(0..seats.len())].clone()
    }

    pub(super) fn principal(&self, rng: &mut StdRng) -> Principal {
        self.principals[rng.random_range(0..TENANTS)].clone()
    }

    /// A new session takes the seat of another, which its clients leave.
    pub(super) fn reseat(&self, rng: &mut StdRng, principal: &Principal, session: Uuid) {
        let mut seats = self.seats.lock().unwrap();
        let seat = rng.random_range(0..seats.len());
        seats[seat] = (principal.clone(), session);
    }

    /// Words that nobody else says.
    pub(super) fn words(&self, rng: &mut StdRng) -> String {
        format!("words {:x} {:x}", rng.random::<u64>(), self.seed.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn submitted(&self, principal: &Principal, run: Uuid) {
        let mut recent = self.recent.lock().unwrap();
        recent.push_back((principal.clone(), run));
        if recent.len() > RECENT_MAX {
            recent.pop_front();
        }
    }

    pub(super) fn recent(&self, rng: &mut StdRng) -> Option<(Principal, Uuid)> {
        let recent = self.recent.lock().unwrap();
        (!recent.is_empty()).then(|| recent[rng.random_range(0..recent.len())].clone())
    }

    pub(super) fn count(&self, what: &str) {
        self.count_by(what, 1);
    }

    pub(super) fn count_by(&self, what: &str, by: u64) {
        *self.counts.lock().unwrap().entry(what.to_owned()).or_default() += by;
    }

    pub(super) fn counted(&self, what: &str) -> u64 {
        self.counts.lock().unwrap().get(what).copied().unwrap_or_default()
    }

    pub(super) fn counts(&self) -> String {
        let counts = self.counts.lock().unwrap();
        counts.iter().map(|(what, count)| format!("{what} {count}")).collect::<Vec<_>>().join(", ")
    }

    /// Remembers what was acknowledged.
    pub(super) fn remember(&self, fact: impl FnOnce(&mut Facts)) {
        fact(&mut self.facts.lock().unwrap());
    }

    pub(super) fn facts(&self) -> Facts {
        std::mem::take(&mut self.facts.lock().unwrap())
    }

    pub(super) fn wrong(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    pub(super) fn take_wrong(&self) -> Vec<String> {
        std::mem::take(&mut self.wrong.lock().unwrap())
    }

    /// An error that torture explains is counted; any other is wrong.
    pub(super) fn judge(&self, what: &str, error: &Error) {
        let mut chain = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            chain = format!("{chain}: {cause}");
            source = cause.source();
        }
        match error {
            // Injected, and hit again by the repetition, or hit where there is none.
            Error::Internal(_) if chain.contains("by torture") => self.count("rolled back"),
            Error::Unavailable { .. } if chain.contains("by torture") => self.count("rolled back"),
            Error::Unavailable { .. } if chain.contains("statement timeout") => self.wrong(format!("{what}: {chain}")),
            Error::Unavailable { source: Some(sqlx::Error::PoolTimedOut), .. } => self.count("waited for a connection in vain"),
            Error::Unavailable { .. } => self.count(&format!("unavailable to {what}")),
            Error::ConcurrencyConflict => self.count("concurrency conflict"),
            _ => self.wrong(format!("{what}: {chain}")),
        }
    }
}

pub(super) fn demo() -> CreateSession {
    CreateSession { agent_id: "demo".into(), metadata: serde_json::Map::new() }
}

/// So that actors do not march in step.
pub(super) async fn jitter(rng: &mut StdRng, most: Duration) {
    tokio::time::sleep(most.mul_f64(rng.random())).await;
}
