//! The documentation of each route, one function for each, named as its handler.

pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod artifacts;
pub(crate) mod browser_session;
pub(crate) mod document;
pub(crate) mod health;
pub(crate) mod messages;
pub(crate) mod queue;
pub(crate) mod runs;
pub(crate) mod sessions;
