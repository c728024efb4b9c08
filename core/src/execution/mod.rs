//! Executing runs: the queue, leases, the fold, fenced writes, and the one place that ends a run.

mod calls;
mod conversation;
mod journal;
mod lease;
pub mod maintenance;
mod queue;
mod replay;
pub mod settle;
mod state;

pub use calls::{AskedApproval, CallStage, PendingCall, Proposal, Repetition};
pub use conversation::{Conversation, Message, answer_value, estimated_tokens};
pub use journal::{Append, Journal, SuspendOutcome, Suspension, WriteError};
pub use lease::{Lease, OwnedRun, WorkerIdentity, Workers};
pub use queue::{ClaimedRun, Queue, Room};
pub use replay::Replay;
pub use settle::{Asks, CancelOutcome, Ending, NewApproval, NewQuestion};
pub use state::{FoldError, Pinned, RunState, Totals};
