//! The queue as operators see it: how much waits, for how long, and who is there to take it. Whoever takes it is in `execution`.

mod service;
mod store;
mod view;

pub use service::QueueService;
pub use view::{ClassView, QueueView, WorkerView};
