//! Sessions: one conversation between one principal and one agent version.

mod command;
mod service;
pub(crate) mod store;
mod view;

pub use command::CreateSession;
pub use service::{Created, SessionService};
pub use view::{SessionStatus, SessionView};
