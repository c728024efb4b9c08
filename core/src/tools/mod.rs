//! Tools: what a model may do. [`pipeline::execute`] is the only way to call one.

mod calculate;
mod current_time;
pub mod pipeline;
