//! The log, and the way from it to whoever watches.

mod event;
pub(crate) mod follow;
pub(crate) mod frame;
mod hub;
pub(crate) mod log;
mod page;
mod ring;
#[cfg(test)]
mod simulation;

pub use event::*;
pub use follow::{EventStream, Followed, StreamError};
pub use frame::{Frame, MessageDelta};
pub use hub::Hub;
pub use log::StoredEvent;
pub use page::EventPage;
