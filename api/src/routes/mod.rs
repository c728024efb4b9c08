//! The map of the surface: every route, with what its caller needs.

mod agents;
mod answer;
mod approvals;
mod artifacts;
mod browser_session;
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

pub(crate) fn all() -> Routes {
    Routes::default()
        .public(Method::GET, "/health/live", health::live)
        .public(Method::GET, "/health/ready", health::ready)
        .guarded(Method::POST, "/v1/sessions", Scope::SessionWrite, Json, sessions::create)
        .guarded(Method::GET, "/v1/sessions", Scope::SessionRead, Nothing, sessions::list)
        .guarded(Method::GET, "/v1/sessions/{session_id}", Scope::SessionRead, Nothing, sessions::get)
        .guarded(Method::DELETE, "/v1/sessions/{session_id}", Scope::SessionWrite, Nothing, sessions::delete)
        .guarded(Method::POST, "/v1/sessions/{session_id}/close", Scope::SessionWrite, Nothing, sessions::close)
        .guarded(Method::GET, "/v1/sessions/{session_id}/messages", Scope::SessionRead, Nothing, messages::list)
        .guarded(Method::POST, "/v1/sessions/{session_id}/messages", Scope::RunWrite, Json, messages::submit)
        .guarded(Method::GET, "/v1/sessions/{session_id}/events", Scope::RunRead, Nothing, events::follow_session)
        .guarded(Method::GET, "/v1/runs", Scope::RunRead, Nothing, runs::list)
        .guarded(Method::GET, "/v1/runs/{run_id}", Scope::RunRead, Nothing, runs::get)
        .guarded(Method::GET, "/v1/runs/{run_id}/why", Scope::RunRead, Nothing, runs::why)
        .guarded(Method::GET, "/v1/runs/{run_id}/events", Scope::RunRead, Nothing, events::follow)
        .guarded(Method::POST, "/v1/runs/{run_id}/cancel", Scope::RunCancel, Nothing, runs::cancel)
        .guarded(Method::POST, "/v1/runs/{run_id}/input", Scope::RunWrite, Json, runs::input)
        .guarded(Method::GET, "/v1/approvals", Scope::ApprovalRead, Nothing, approvals::list)
        .guarded(Method::GET, "/v1/approvals/{approval_id}", Scope::ApprovalRead, Nothing, approvals::get)
        .guarded(Method::POST, "/v1/approvals/{approval_id}/resolve", Scope::ApprovalResolve, Json, approvals::resolve)
        .guarded(Method::GET, "/v1/artifacts/{artifact_id}", Scope::ArtifactRead, Nothing, artifacts::get)
        .guarded(Method::GET, "/v1/artifacts/{artifact_id}/content", Scope::ArtifactRead, Nothing, artifacts::content)
        .guarded(Method::GET, "/v1/agents", Scope::AgentRead, Nothing, agents::list)
        .guarded(Method::GET, "/v1/agents/{agent_id}", Scope::AgentRead, Nothing, agents::get)
        .guarded(Method::GET, "/v1/queue", Scope::OperatorRead, Nothing, queue::get)
        .authenticated(Method::POST, "/v1/browser-session", browser_session::open)
        .authenticated(Method::DELETE, "/v1/browser-session", browser_session::close)
}
