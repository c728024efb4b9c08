//! What tests stand on. Every integration test ends with the audit.

pub(crate) mod audit;
pub(crate) mod database;
pub(crate) mod wait;
