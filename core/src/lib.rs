//! Baton's rules, services and SQL: everything that knows what a run is. No HTTP framework, no command line, no signals.
//!
//! ARCHITECTURE.md follows one run through these modules.

#![forbid(unsafe_code)]

pub mod agents;
pub mod approvals;
pub mod artifacts;
pub mod canonical;
pub mod clock;
mod closed_set;
pub mod config;
pub mod content;
pub mod db;
pub mod error;
pub mod events;
pub mod execution;
pub mod fault;
mod gather;
pub mod idempotency;
mod json_object;
pub mod models;
pub mod notify;
pub mod outbound;
pub mod page;
pub mod policy;
pub mod principal;
pub mod queue;
pub mod runs;
mod schema;
pub mod scope;
mod services;
pub mod sessions;
mod task;
pub mod tokens;
mod toml_folder;
pub mod tools;

pub use closed_set::UnknownWord;
pub use error::{Cap, Code, Conflict, Error, Resource};
pub use principal::{Identity, Principal};
pub use scope::Scope;
pub use services::Services;
