//! Approvals: what people are asked before a call that policy does not allow by itself, and what they answer.
//!
//! They are made with the suspension of their run (`execution::settle`), and closed with its end. Here they are read, and
//! resolved: the last decision puts the run back into the queue in the same statement.

mod command;
mod service;
mod store;
mod view;

pub use command::{ResolveApproval, Verdict};
pub use service::{ApprovalFilter, ApprovalService};
pub use view::{ApprovalStatus, ApprovalView};
