//! Sessions: one conversation between one principal and one agent version.

mod close;
mod command;
mod delete;
pub(crate) mod retention;
mod service;
pub(crate) mod store;
mod transcript;
mod view;

pub use command::CreateSession;
pub use service::{Created, SessionService};
pub use transcript::{TranscriptItem, TranscriptKind, TranscriptRole};
pub use view::{SessionStatus, SessionView};
