//! Tools: what a model may do. [`pipeline`] is the only way to call one.

mod ask_user;
mod calculate;
mod catalogue;
mod current_time;
mod excerpt;
mod external_write;
mod failure;
mod http_fetch;
mod invocation;
pub mod pipeline;
mod recovery;
mod registration;
mod revalidate;
mod spec;
mod tool;
mod write_artifact;

pub use catalogue::{Catalogue, CatalogueError, Entry};
pub use failure::{CallStatus, ReasonCode, ToolFailure};
pub use invocation::{ApprovedFor, CallIdentity, CallRows, Invocation, InvocationStatus, Moved, unsettled};
pub use recovery::{Recovery, recover};
pub use revalidate::Void;
pub use spec::{Idempotency, OutputTrust, Parallel, Risk, SideEffect, ToolKind, ToolSpec};
pub use tool::{Question, Tool, ToolAnswer, ToolContext};

#[cfg(test)]
mod tests;
