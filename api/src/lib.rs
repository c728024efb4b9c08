//! The HTTP surface of Baton, on axum: it parses, calls a service of core, and renders. No rule lives here.
//!
//! A request arrives on a `connection` that `serve` has accepted. It passes, from the outside in: `request_id` (its name, its
//! span, the envelope of whatever goes wrong), `linger` (an early answer still reaches a client that is sending), `host` (who may
//! ask at all), `cors` (what other pages may read), `in_time` (there is an answer though the database is silent), the panic net,
//! the route's gate in `access` (body, credential, scope), and a handler in `routes`.

#![forbid(unsafe_code)]

mod access;
mod auth;
mod body;
mod command;
mod connection;
mod cors;
mod cursor;
mod error;
mod extract;
mod headers;
mod host;
mod in_time;
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
mod streams;

use axum::Router;
use axum::http::header;
use axum::middleware::{from_fn, from_fn_with_state};
use tower::util::option_layer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;

pub use access::{Access, Route, Takes};
pub use auth::{Authenticator, NoAuthenticator, authenticator};
pub use cors::CorsOrigins;
pub use host::{Bind, Refusal};
pub use openapi::{document, document_yaml, errors_reference};
pub use serve::serve;
pub use sse::HEARTBEAT;
pub use state::ApiState;
pub use streams::Streams;

/// Every route, behind every check. The last layer added is the first to see a request.
pub fn router(state: ApiState) -> Router {
    routes::all()
        .into_router()
        .fallback(error::no_such_route)
        .method_not_allowed_fallback(error::no_such_method)
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(from_fn(in_time::answered))
        .layer(option_layer(state.cors_origins.layer()))
        .layer(from_fn_with_state(state.clone(), host::check))
        .layer(from_fn_with_state(state.clone(), linger::until_sent))
        .layer(from_fn_with_state(state.clone(), request_id::assign))
        .layer(SetSensitiveRequestHeadersLayer::new([header::AUTHORIZATION, header::COOKIE]))
        .with_state(state)
}

/// What is registered, for whoever compares it with what is documented or tested.
pub fn table() -> Vec<Route> {
    routes::all().into_documented().into_iter().map(|documented| documented.route).collect()
}

#[cfg(test)]
mod tests;
