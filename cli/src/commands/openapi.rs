//! `agentctl openapi`: the document of the HTTP API, as this program would serve it. Needs no database and no configuration.

use crate::exit::Failure;
use crate::render;

pub(crate) fn run() -> Result<(), Failure> {
    render::document(&baton_api::document_yaml())
}
