//! Runs: the durable execution of one user message.

mod backlog;
mod command;
mod failure;
mod input;
mod limits;
mod row;
mod service;
mod status;
pub(crate) mod store;
mod submission;
mod submissions;
mod usage;
mod view;
mod wait;
mod why;

pub(crate) use backlog::Backlog;
pub use command::{DeliverInput, SubmitMessage, Submitted};
pub use failure::{Failure, FailureClass, FailureReason};
pub(crate) use limits::{COST_USD_MOST, COST_USD_SCALE_MAX};
pub use limits::{LimitWishes, Limits};
pub use service::{RunFilter, RunService};
pub use status::{Priority, RequeueCause, ResumeCause, RunStatus};
pub(crate) use submissions::Submissions;
pub use usage::Usage;
pub use view::{CancelView, LimitsView, RunView, WaitingFor};
pub use wait::WAIT_MAX;
pub use why::{Because, WhyView};
