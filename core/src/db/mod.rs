//! The pool, the schema's version, and what a database error means to us.

mod connect;
mod migrate;
mod own;
mod retry;

pub use connect::{Role, connect, options, ways};
pub use migrate::{SchemaError, apply_migrations, check_schema, pending_migrations};
pub(crate) use own::{Lent, OwnConnections};
pub(crate) use retry::{answered, constraint, is_lost, is_victim, repeat_when_lost};
