//! A log in memory that answers late.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::events::EventType;
use crate::events::log::{LogPage, StoredEvent};

pub(super) const SESSION: Uuid = Uuid::from_u128(1);

/// Rows of a page at most: a replay of a few events takes several.
const PAGE_ROWS_MAX: usize = 4;

#[derive(Debug, Clone)]
pub(crate) struct SimulatedLog {
    state: Arc<Mutex<State>>,
    /// Chance of a read that fails.
    failing: f64,
}

#[derive(Debug)]
struct State {
    random: StdRng,
    events: Vec<StoredEvent>,
    failed: usize,
}

/// What a service reads before it opens a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) head: i64,
    /// Its first and, once it has ended, its last event.
    pub(super) first: i64,
    pub(super) last: Option<i64>,
}

impl SimulatedLog {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new(State { random: StdRng::seed_from_u64(seed), events: Vec::new(), failed: 0 })),
            failing: 0.0,
        }
    }

    /// The same log, whose reads fail now and then.
    pub(super) fn failing(&self, failing: f64) -> Self {
        Self { failing, ..self.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one source of chance of a schedule.
    pub(super) fn random<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.state().random)
    }

    /// Commits an event: its sequence.
    pub(super) fn append(&self, run_id: Option<Uuid>, event_type: EventType) -> i64 {
        let mut state = self.state();
        let text = "x".repeat(state.random.random_range(0..200));
        let sequence = i64::try_from(state.events.len()).expect("there are few") + 1;
        state.events.push(StoredEvent {
            sequence,
            run_id,
            event_type: event_type.as_str().to_owned(),
            schema_version: 1,
            created_at: OffsetDateTime::UNIX_EPOCH,
            body: format!(r#"{{"text":"{text}"}}"#),
        });
        sequence
    }

    /// The sequences of a run, or of the session.
    pub(super) fn sequences(&self, of: Option<Uuid>) -> Vec<i64> {
        let state = self.state();
        let wanted = state.events.iter().filter(|event| of.is_none() || event.run_id == of);
        wanted.map(|event| event.sequence).collect()
    }

    /// How many reads have failed.
    pub(super) fn failed(&self) -> usize {
        self.state().failed
    }

    /// A question on its way, or its answer: others have their turn.
    async fn travel(&self) {
        for _ in 0..self.random(|random| random.random_range(0..4)) {
            tokio::task::yield_now().await;
        }
    }

    /// Answers from what is committed at one moment between the question and the answer.
    async fn ask<T>(&self, answer: impl FnOnce(&mut State) -> T) -> Result<T, sqlx::Error> {
        self.travel().await;
        let answer = answer(&mut self.state());
        self.travel().await;
        if self.failing > 0.0 && self.random(|random| random.random_bool(self.failing)) {
            self.state().failed += 1;
            return Err(sqlx::Error::PoolTimedOut);
        }
        Ok(answer)
    }

    pub(super) async fn extent(&self, of: Option<Uuid>) -> Extent {
        let extent = self.ask(|state| {
            let is_end = |event: &&StoredEvent| match event.event_type.parse::<EventType>() {
                Ok(EventType::SessionClosed) => of.is_none(),
                Ok(event_type) => of.is_some() && event_type.is_terminal(),
                Err(_) => false,
            };
            let mut wanted = state.events.iter().filter(|event| of.is_none() || event.run_id == of);
            Extent {
                head: state.events.last().map_or(0, |event| event.sequence),
                first: wanted.clone().next().map_or(1, |event| event.sequence),
                last: wanted.find(is_end).map(|event| event.sequence),
            }
        });
        extent.await.expect("only what streams read fails")
    }

    pub(crate) async fn read_after(&self, after: i64) -> Result<LogPage, sqlx::Error> {
        self.ask(|state| {
            let rows = state.random.random_range(1..=PAGE_ROWS_MAX);
            let events = state.events.iter().filter(|event| event.sequence > after).take(rows).cloned().collect::<Vec<_>>();
            LogPage { is_last: events.len() < rows, events }
        })
        .await
    }

    pub(crate) async fn heads(&self) -> Result<Vec<(Uuid, i64)>, sqlx::Error> {
        self.ask(|state| vec![(SESSION, state.events.last().map_or(0, |event| event.sequence))]).await
    }
}
