//! A step: one turn of the model, and everything that its calls lead to.

mod budget;
mod hearing;
mod model;
mod tools;

pub(crate) use budget::check_spent;
pub(crate) use model::ask_model;
pub(crate) use tools::call_tools;
