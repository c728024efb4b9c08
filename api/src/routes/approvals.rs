//! Approvals.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use baton_core::Services;
use baton_core::approvals::{ApprovalFilter, ResolveApproval};

use crate::error::ApiError;
use crate::extract::{ApprovalId, Caller, Change, Query};
use crate::list::ListQuery;

pub(super) async fn list(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let mut list = ListQuery::new(&query, &["status", "run_id", "session_id"]);
    let filter = ApprovalFilter { statuses: list.words("status"), run_id: list.id("run_id"), session_id: list.id("session_id") };
    let request = list.page()?;
    Ok(Json(services.approvals.list(&principal, &filter, &request).await?))
}

pub(super) async fn get(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    ApprovalId(id): ApprovalId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let approval = services.approvals.get(&principal, id).await?;
    query.refuse()?; // after it: what is not there is 404, however it is asked for
    Ok(Json(approval))
}

/// Who decides is the caller: nothing in the body says so.
pub(super) async fn resolve(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    ApprovalId(id): ApprovalId,
    change: Change,
) -> Result<impl IntoResponse, ApiError> {
    let command = match change.parse::<ResolveApproval>() {
        Ok(command) => command,
        Err(malformed) => return Err(services.approvals.missing_or(&principal, id, malformed).await.into()),
    };
    Ok(Json(services.approvals.resolve(&principal, id, command).await?))
}
