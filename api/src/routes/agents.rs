//! Agents.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use baton_core::Services;
use serde_json::json;

use crate::error::ApiError;
use crate::extract::{AgentId, Caller, Query};

/// All of them: one page, as every list has them.
pub(super) async fn list(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    query.refuse()?;
    Ok(Json(json!({"items": services.agents.list(&principal)?, "next_cursor": null})))
}

pub(super) async fn get(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    AgentId(id): AgentId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let agent = services.agents.get(&principal, &id)?;
    query.refuse()?; // after it: what is not there is 404, however it is asked for
    Ok(Json(agent))
}
