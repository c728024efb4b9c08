//! The HTTP surface of Baton, on axum: it parses, calls a service of core, and renders. No rule lives here.
//!
//! A request passes, from the outside in: `request_id` (its name, its span, the envelope of whatever goes wrong), `linger`
//! (an early answer still reaches a client that is sending), the panic net, `host` (who may ask at all), the route's gate in
//! `access` (body, credential, scope), and a handler in `routes`.

#![forbid(unsafe_code)]

mod access;
mod auth;
mod body;
mod cursor;
mod error;
mod extract;
mod headers;
mod host;
mod json;
mod linger;
mod list;
mod openapi;
mod range;
mod request_id;
mod routes;
mod serve;
mod sse;
mod state;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tower_http::catch_panic::CatchPanicLayer;

pub use access::{Access, Route, Takes};
pub use auth::{Authenticator, DevAuthenticator, authenticator};
pub use host::{Bind, Refusal};
pub use openapi::{document, document_yaml, errors_reference};
pub use serve::serve;
pub use sse::HEARTBEAT;
pub use state::ApiState;

/// Every route, behind every check. The last layer added is the first to see a request.
pub fn router(state: ApiState) -> Router {
    routes::all()
        .into_router()
        .fallback(error::no_such_route)
        .method_not_allowed_fallback(error::no_such_method)
        .layer(from_fn_with_state(state.clone(), host::check))
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(from_fn(linger::until_sent))
        .layer(from_fn_with_state(state.clone(), request_id::assign))
        .with_state(state)
}

/// What is registered, for whoever compares it with what is documented or tested.
pub fn table() -> Vec<Route> {
    routes::all().into_documented().into_iter().map(|documented| documented.route).collect()
}

#[cfg(test)]
mod tests;
