//! The clock for everything that the database does not time. Leases, expiry and ordering use the database's own clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use uuid::Uuid;

/// Wall and monotonic time, and the identifiers that carry time. Cheap to clone; clones share what a test advances.
#[derive(Debug, Clone)]
pub struct Clock {
    started: Instant,
    manual: Option<Arc<Mutex<Manual>>>,
}

#[derive(Debug)]
struct Manual {
    now: OffsetDateTime,
    elapsed: Duration,
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks the machine for the time")]
impl Clock {
    pub fn system() -> Self {
        Self { started: Instant::now(), manual: None }
    }

    /// Stands still until a test advances it.
    pub fn manual(now: OffsetDateTime) -> Self {
        Self { started: Instant::now(), manual: Some(Arc::new(Mutex::new(Manual { now, elapsed: Duration::ZERO }))) }
    }

    /// UTC wall time.
    pub fn now(&self) -> OffsetDateTime {
        self.read_manual(|manual| manual.now).unwrap_or_else(OffsetDateTime::now_utc)
    }

    /// Time since the clock was made, which no adjustment of the wall clock moves.
    pub fn elapsed(&self) -> Duration {
        self.read_manual(|manual| manual.elapsed).unwrap_or_else(|| self.started.elapsed())
    }

    /// A new UUIDv7. From the machine's time even under a manual clock: identifiers must differ and sort.
    pub fn new_id(&self) -> Uuid {
        Uuid::now_v7()
    }

    /// Moves a manual clock forward; the system's is not ours to move.
    pub fn advance(&self, by: Duration) {
        if let Some(manual) = &self.manual {
            let mut manual = manual.lock().unwrap_or_else(PoisonError::into_inner);
            manual.now += by;
            manual.elapsed += by;
        }
    }

    fn read_manual<T>(&self, read: impl FnOnce(&Manual) -> T) -> Option<T> {
        self.manual.as_ref().map(|manual| read(&manual.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
