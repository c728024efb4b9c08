//! `agentctl openapi`: the document of the HTTP API, as this program would serve it. Needs no database and no configuration.

use std::io::{Write, stdout};

use crate::exit::{Exit, Failure};

pub(crate) fn run() -> Result<(), Failure> {
    let document = baton_api::document_yaml();
    stdout().write_all(document.as_bytes()).map_err(|error| Failure::new(Exit::FailedRun, error.to_string()))
}
