//! The map of the surface: every route, with what its caller needs and what the document says of it.

mod agents;
mod answer;
mod approvals;
mod artifacts;
mod browser_session;
mod document;
mod events;
mod health;
mod messages;
mod queue;
mod runs;
mod sessions;

use axum::http::Method;
use baton_core::Scope;

use crate::access::Routes;
use crate::access::Takes::{Json, Nothing};
use crate::openapi::routes as docs;

pub(crate) fn all() -> Routes {
    Routes::default()
        .public(Method::GET, "/health/live", health::live, docs::health::live)
        .public(Method::GET, "/health/ready", health::ready, docs::health::ready)
        .authenticated(Method::GET, "/openapi.json", document::get, docs::document::get)
        .guarded(Method::POST, "/v1/sessions", Scope::SessionWrite, Json, sessions::create, docs::sessions::create)
        .guarded(Method::GET, "/v1/sessions", Scope::SessionRead, Nothing, sessions::list, docs::sessions::list)
        .guarded(Method::GET, "/v1/sessions/{session_id}", Scope::SessionRead, Nothing, sessions::get, docs::sessions::get)
        .guarded(
            Method::DELETE,
            "/v1/sessions/{session_id}",
            Scope::SessionWrite,
            Nothing,
            sessions::delete,
            docs::sessions::delete,
        )
        .guarded(
            Method::POST,
            "/v1/sessions/{session_id}/close",
            Scope::SessionWrite,
            Nothing,
            sessions::close,
            docs::sessions::close,
        )
        .guarded(
            Method::GET,
            "/v1/sessions/{session_id}/messages",
            Scope::SessionRead,
            Nothing,
            messages::list,
            docs::messages::list,
        )
        .guarded(
            Method::POST,
            "/v1/sessions/{session_id}/messages",
            Scope::RunWrite,
            Json,
            messages::submit,
            docs::messages::submit,
        )
        .guarded(
            Method::GET,
            "/v1/sessions/{session_id}/events",
            Scope::RunRead,
            Nothing,
            events::of_session,
            docs::sessions::events,
        )
        .guarded(Method::GET, "/v1/runs", Scope::RunRead, Nothing, runs::list, docs::runs::list)
        .guarded(Method::GET, "/v1/runs/{run_id}", Scope::RunRead, Nothing, runs::get, docs::runs::get)
        .guarded(Method::GET, "/v1/runs/{run_id}/why", Scope::RunRead, Nothing, runs::why, docs::runs::why)
        .guarded(Method::GET, "/v1/runs/{run_id}/events", Scope::RunRead, Nothing, events::of_run, docs::runs::events)
        .guarded(Method::POST, "/v1/runs/{run_id}/cancel", Scope::RunCancel, Nothing, runs::cancel, docs::runs::cancel)
        .guarded(Method::POST, "/v1/runs/{run_id}/input", Scope::RunWrite, Json, runs::input, docs::runs::input)
        .guarded(Method::GET, "/v1/approvals", Scope::ApprovalRead, Nothing, approvals::list, docs::approvals::list)
        .guarded(Method::GET, "/v1/approvals/{approval_id}", Scope::ApprovalRead, Nothing, approvals::get, docs::approvals::get)
        .guarded(
            Method::POST,
            "/v1/approvals/{approval_id}/resolve",
            Scope::ApprovalResolve,
            Json,
            approvals::resolve,
            docs::approvals::resolve,
        )
        .guarded(Method::GET, "/v1/artifacts/{artifact_id}", Scope::ArtifactRead, Nothing, artifacts::get, docs::artifacts::get)
        .guarded(
            Method::GET,
            "/v1/artifacts/{artifact_id}/content",
            Scope::ArtifactRead,
            Nothing,
            artifacts::content,
            docs::artifacts::content,
        )
        .guarded(Method::GET, "/v1/agents", Scope::AgentRead, Nothing, agents::list, docs::agents::list)
        .guarded(Method::GET, "/v1/agents/{agent_id}", Scope::AgentRead, Nothing, agents::get, docs::agents::get)
        .guarded(Method::GET, "/v1/queue", Scope::OperatorRead, Nothing, queue::get, docs::queue::get)
        .authenticated(Method::POST, "/v1/browser-session", browser_session::open, docs::browser_session::open)
        .authenticated(Method::DELETE, "/v1/browser-session", browser_session::close, docs::browser_session::close)
}
