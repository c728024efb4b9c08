//! One file for each command.

pub(crate) mod api;
pub(crate) mod approvals;
pub(crate) mod artifacts;
mod ask;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod migrate;
pub(crate) mod openapi;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod stream;
pub(crate) mod token;
pub(crate) mod worker;
