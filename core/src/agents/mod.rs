//! Agents: files, frozen into versions that never change.

mod catalogue;
mod definition;
mod script;
mod service;
mod store;
mod view;

pub use catalogue::{Catalogue, LoadError};
pub use definition::AgentDefinition;
pub use script::{Fault, Pattern, Script, ScriptCall, ScriptTurn, Template};
pub use service::AgentService;
pub use store::Versions;
pub use view::AgentView;
