//! The OpenAPI document, made of what is registered: a route without its documentation does not compile.
//!
//! What is documented comes from where it is decided: paths, scopes and bodies from the table of routes, schemas from the types
//! that are serialized and parsed (they derive them in core), codes and statuses from the one table of errors. Written by hand
//! are words, examples and what a route answers (`routes`); tests hold real answers to it.

mod errors;
mod events;
mod examples;
mod headers;
mod operation;
pub(crate) mod routes;
mod schemas;
mod yaml;

use serde_json::{Map, Value, json};

use crate::access::{Access, Route};
use crate::auth::COOKIE;
use crate::openapi::schemas::Components;

pub use errors::reference as errors_reference;
pub(crate) use operation::Operation;
pub(crate) use schemas::validator;

/// A route as it is registered, with what is written about it.
#[derive(Debug, Clone)]
pub(crate) struct Documented {
    pub(crate) route: Route,
    pub(crate) operation: fn() -> Operation,
}

/// The sections of the document, in the order in which people read them.
const SECTIONS: [&str; 6] = ["openapi", "info", "servers", "tags", "paths", "components"];

/// The document, as a server answers it.
pub fn document() -> Value {
    made_of(&crate::routes::all().into_documented())
}

/// The document as it is committed: `openapi.yaml`.
pub fn document_yaml() -> String {
    let document = document();
    let sections: Vec<String> = SECTIONS.iter().map(|name| yaml::section(name, &document[*name])).collect();
    format!("# Written by `agentctl openapi`; a test compares.\n{}", sections.concat())
}

fn made_of(documented: &[Documented]) -> Value {
    let mut components = Components::default();
    let mut paths = Map::new();
    for Documented { route, operation } in documented {
        let written = operation().at(route, &mut components);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = written;
    }
    errors::add_fallbacks(&mut components);
    json!({
        "openapi": "3.1.0",
        "info": info(),
        "servers": [{"url": "http://127.0.0.1:7420", "description": "`agentctl dev`"}],
        "tags": tags(),
        "paths": paths,
        "components": {
            "schemas": components.schemas,
            "responses": components.responses,
            "headers": headers::components(),
            "parameters": operation::shared_parameters(),
            "securitySchemes": security_schemes(),
        },
    })
}

const DESCRIPTION: &str = "\
A client posts a message; Baton stores a run before it answers; a worker executes it; everything that happens is an event, which
any number of clients follow and resume exactly.

Success is the bare resource. Failure is `{\"error\":{code, message, details, request_id}}`, for unknown paths (404) and methods
(405, with `Allow`) too, except at `/health/ready`. `code` is closed: a code never disappears or changes its meaning.

Checks come in this order: `Host` and `Origin`, size and media type of the body (400, 413, 415), credential (401), scope (403),
existence (404, which is also what others' resources and identifiers without the form of one answer), caps (429), body and query
(400), state (409). Unknown query parameters and unknown members of a body are 400; so are duplicate keys, NUL, `-0` and nesting
deeper than 64.

Times are RFC 3339 in UTC, money is decimal text. Lists are ordered by `created_at`, then `id`, newest first.";

fn info() -> Value {
    json!({
        "title": "Baton",
        "version": env!("CARGO_PKG_VERSION"),
        "summary": "Durable runs for AI agents",
        "description": DESCRIPTION,
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    })
}

fn tags() -> Value {
    let tag = |(name, description): (&str, &str)| json!({"name": name, "description": description});
    operation::TAGS.iter().copied().map(tag).collect()
}

/// `auth.mode = dev` takes no credential at all; the rest of the document holds there too.
fn security_schemes() -> Value {
    json!({
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "A token with the scopes that an operation names. A server in dev mode asks for none.",
        },
        "cookie": {
            "type": "apiKey",
            "in": "cookie",
            "name": COOKIE,
            "description": "The same token, as `POST /v1/browser-session` has set it.",
        },
    })
}

/// What a caller has to hold.
fn security(access: Access) -> Value {
    match access {
        Access::Public => json!([]),
        Access::Authenticated => json!([{"bearer": []}, {"cookie": []}]),
        Access::Scope(scope) => json!([{"bearer": [scope.as_str()]}, {"cookie": [scope.as_str()]}]),
    }
}

#[cfg(test)]
mod tests;
