//! The one place that ends a run.
//!
//! Terminal and waiting statuses are written by the statements below and by nothing else. Each is a guarded update with its
//! events in one statement: zero rows never commit the event that would describe them. Order of locks in all of them: runs
//! by id, then what hangs on them, then sessions by id.

mod append;
mod cancel;
mod model_rows;
mod rows;
mod suspend;
mod sweep;

pub(super) use append::{AppendRow, Appended, EventRow, Fence, append_and_settle, committed_before};
pub use cancel::{CancelOutcome, cancel};
pub(super) use suspend::{AskingEvent, SuspendRow, Suspended, suspend};
pub use suspend::{Asks, NewApproval, NewQuestion};
pub(super) use sweep::{clear_due, fail_overdue, mark_dead_workers, repair_waiting, requeue_lost};

use crate::runs::{Failure, RunStatus};

/// How a worker lets go of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Completed,
    Failed {
        failure: Failure,
        /// For operators; never on the wire.
        class: Option<String>,
    },
    Cancelled,
    /// Back to the queue at shutdown; not an end.
    HandedBack,
}

impl Ending {
    pub(super) const fn status(&self) -> RunStatus {
        match self {
            Self::Completed => RunStatus::Completed,
            Self::Failed { .. } => RunStatus::Failed,
            Self::Cancelled => RunStatus::Cancelled,
            Self::HandedBack => RunStatus::Queued,
        }
    }
}
