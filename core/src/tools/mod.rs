//! Tools: what a model may do. [`pipeline`] is the only way to call one.

mod calculate;
mod current_time;
mod failure;
mod invocation;
pub mod pipeline;
mod spec;
mod tool;

pub use failure::{CallStatus, ReasonCode, ToolFailure};
pub use invocation::{ApprovedFor, CallIdentity, CallRows, Invocation, InvocationStatus, Moved, unsettled};
pub use spec::{Idempotency, OutputTrust, Parallel, Risk, SideEffect, ToolKind, ToolSpec};
pub use tool::{Question, Tool, ToolAnswer, ToolContext};
