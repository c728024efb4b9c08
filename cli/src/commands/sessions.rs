//! `agentctl sessions`: the same services that the API's handlers call.

use baton_core::page::PageRequest;

use crate::args::{Global, SessionsGet, SessionsList};
use crate::connection::services;
use crate::exit::Failure;
use crate::hints::Hints;
use crate::render;

pub(crate) async fn list(global: &Global, args: SessionsList) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    let request = PageRequest::new(args.cursor.as_deref(), args.limit)?;
    let page = services.sessions.list(&principal, &request).await?;
    if global.json { render::json(&page) } else { render::sessions(&page) }
}

pub(crate) async fn get(global: &Global, args: SessionsGet) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    let session = services.sessions.get(&principal, args.session).await?;
    if global.json { render::json(&session) } else { render::session(&session) }
}

pub(crate) async fn close(global: &Global, args: SessionsGet) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    let hints = Hints::of_operator(global, &args.caller);
    let session = services.sessions.close(&principal, args.session).await.map_err(|error| hints.failure(error))?;
    services.flush().await;
    if global.json { render::json(&session) } else { render::session(&session) }
}

/// There is no view of what is gone.
pub(crate) async fn delete(global: &Global, args: SessionsGet) -> Result<(), Failure> {
    let (services, principal) = services(global, &args.caller).await?;
    let hints = Hints::of_operator(global, &args.caller);
    services.sessions.delete(&principal, args.session).await.map_err(|error| hints.failure(error))?;
    if global.json { Ok(()) } else { render::line("deleted") }
}
