//! What moves on a connection, and for how long it has not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::config::Server;
use tokio::time::Instant;

/// How often a connection is looked at, as a part of the shortest time-out: that is how late one can be noticed.
const LOOKS_PER_TIMEOUT: u32 = 4;

/// For how long what is waited for.
#[derive(Debug)]
pub(super) struct Patience {
    head: Duration,
    idle: Duration,
    write: Duration,
    farewell: Duration,
}

impl Patience {
    pub(super) fn new(limits: &Server, farewell: Duration) -> Self {
        Self { head: limits.header_timeout, idle: limits.idle_timeout, write: limits.write_timeout, farewell }
    }

    pub(super) fn look_interval(&self) -> Duration {
        self.head.min(self.idle).min(self.write) / LOOKS_PER_TIMEOUT
    }
}

#[derive(Debug)]
pub(super) struct Progress {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    requests: u32,
    /// Since nobody has been served on it.
    quiet_since: Instant,
    /// Since a byte came that belongs to no request yet.
    head_since: Option<Instant>,
    /// Since the socket has taken nothing of what is to be written.
    blocked_since: Option<Instant>,
}

/// What a look at a connection finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Busy,
    /// Nothing is in flight.
    Quiet,
    /// Nothing has been in flight for too long.
    Overdue,
    /// The client has taken nothing for too long.
    Stalled,
    /// And does not take a farewell either.
    Gone,
}

impl Progress {
    pub(super) fn new() -> Self {
        let state = State { requests: 0, quiet_since: Instant::now(), head_since: None, blocked_since: None };
        Self { state: Mutex::new(state) }
    }

    pub(super) fn begin(progress: &Arc<Self>) -> InFlight {
        let mut state = progress.state();
        state.requests += 1;
        state.head_since = None;
        InFlight(Arc::clone(progress))
    }

    pub(super) fn received(&self) {
        let mut state = self.state();
        if state.requests == 0 && state.head_since.is_none() {
            state.head_since = Some(Instant::now());
        }
    }

    pub(super) fn sent(&self) {
        self.state().blocked_since = None;
    }

    pub(super) fn blocked(&self) {
        self.state().blocked_since.get_or_insert_with(Instant::now);
    }

    pub(super) fn judge(&self, patience: &Patience, now: Instant) -> Verdict {
        let state = self.state();
        let since = |moment: Option<Instant>| moment.map_or(Duration::ZERO, |moment| now.saturating_duration_since(moment));
        let blocked = since(state.blocked_since);
        if blocked >= patience.write + patience.farewell {
            Verdict::Gone
        } else if blocked >= patience.write {
            Verdict::Stalled
        } else if state.requests > 0 || state.blocked_since.is_some() {
            Verdict::Busy
        } else if since(state.head_since) >= patience.head || now - state.quiet_since >= patience.idle {
            Verdict::Overdue
        } else {
            Verdict::Quiet
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request, until it is dropped with the body of its answer.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Progress>);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.requests -= 1;
        state.quiet_since = Instant::now();
    }
}

#[cfg(test)]
mod tests;
