//! Agents: files, frozen into versions that never change.

mod catalogue;
mod definition;
mod script;
mod store;

pub use catalogue::{Catalogue, LoadError};
pub use definition::{AgentDefinition, SCRIPTED};
pub use script::{Fault, Script, ScriptCall, ScriptTurn, Template};
pub use store::Versions;
