//! Waiting on a condition, never on time alone.

use std::thread;
use std::time::{Duration, Instant};

use crate::Error;

/// A start takes 30 ms and more; asking this often costs nothing and adds little.
const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// Asks `ready` until it has an answer or fails. `None` when `limit` has passed without one.
#[expect(clippy::disallowed_methods, reason = "the deadline of a process is real time, which no test drives")]
pub(crate) fn until<T>(limit: Duration, mut ready: impl FnMut() -> Result<Option<T>, Error>) -> Result<Option<T>, Error> {
    let deadline = Instant::now() + limit;
    loop {
        // The condition is asked once more after the deadline: a descheduled process must not fail for having slept.
        let late = Instant::now() >= deadline;
        if let Some(answer) = ready()? {
            return Ok(Some(answer));
        }
        if late {
            return Ok(None);
        }
        thread::sleep(POLL_INTERVAL);
    }
}
