//! Whether the process lives, and whether it can work. Neither says anything else.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use baton_core::Services;
use serde_json::json;

use crate::error::ApiError;
use crate::extract::Query;

/// Checks nothing: a process that answers lives, and one whose database is away must not be restarted for it.
pub(super) async fn live(query: Query) -> Result<impl IntoResponse, ApiError> {
    query.refuse()?;
    Ok(Json(json!({"status": "ok"})))
}

/// For load balancers, not for people: the one refusal without an envelope. Core logs why.
pub(super) async fn ready(State(services): State<Arc<Services>>, query: Query) -> Result<impl IntoResponse, ApiError> {
    query.refuse()?;
    Ok(match services.ready().await {
        Ok(()) => (StatusCode::OK, Json(json!({"status": "ready"}))),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "not_ready"}))),
    })
}
