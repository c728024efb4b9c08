//! Executing runs: the queue, leases, the fold, fenced writes, and the one place that ends a run.

mod conversation;
mod journal;
mod lease;
pub mod maintenance;
mod queue;
mod replay;
pub mod settle;
mod state;

pub use conversation::{Conversation, Message};
pub use journal::{Append, Journal, WriteError};
pub use lease::{Lease, OwnedRun, WorkerIdentity, Workers};
pub use queue::{ClaimedRun, Queue, Room};
pub use replay::Replay;
pub use settle::{CancelOutcome, Ending};
pub use state::{CallStage, FoldError, PendingCall, RunState, Totals};
