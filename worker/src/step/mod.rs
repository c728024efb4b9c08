//! A step: one turn of the model, and everything that its calls lead to.

mod model;
mod tools;

pub(crate) use model::ask_model;
pub(crate) use tools::call_tools;
