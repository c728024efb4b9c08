//! Runs: the durable execution of one user message.

mod command;
mod failure;
mod limits;
mod service;
mod status;
pub(crate) mod store;
mod usage;
mod view;

pub use command::{SubmitMessage, Submitted};
pub use failure::{Failure, FailureReason};
pub use limits::{LimitWishes, Limits};
pub use service::{EventPage, RunFilter, RunService};
pub use status::{Priority, RequeueCause, ResumeCause, RunStatus};
pub use usage::Usage;
pub use view::{CancelView, LimitsView, RunView};
