//! Runs.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use baton_core::Services;
use baton_core::runs::{DeliverInput, RunFilter};

use crate::error::ApiError;
use crate::extract::{Caller, Change, Query, RunId};
use crate::list::ListQuery;

pub(super) async fn list(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let mut list = ListQuery::new(&query, &["session_id", "status", "created_after", "created_before"]);
    let filter = RunFilter {
        session_id: list.id("session_id"),
        statuses: list.words("status"),
        created_after: list.time("created_after"),
        created_before: list.time("created_before"),
    };
    let request = list.page()?;
    Ok(Json(services.runs.list(&principal, &filter, &request).await?))
}

/// With `wait`, once the run has ended or waits for somebody.
pub(super) async fn get(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    RunId(id): RunId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let run = match query.only_wait() {
        Ok(Duration::ZERO) => services.runs.get(&principal, id).await?,
        Ok(within) => services.runs.wait(&principal, id, within).await?,
        Err(malformed) => return Err(services.runs.unreadable_or(&principal, id, malformed).await.into()),
    };
    Ok(Json(run))
}

pub(super) async fn why(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    RunId(id): RunId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let why = services.runs.why(&principal, id).await?;
    query.refuse()?; // after it: what is not there is 404, however it is asked for
    Ok(Json(why))
}

/// 200 once the run has ended, 202 while it is still on its way there.
pub(super) async fn cancel(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    RunId(id): RunId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let within = match query.only_wait() {
        Ok(within) => within,
        Err(malformed) => return Err(services.runs.missing_or(&principal, id, malformed).await.into()),
    };
    let run = services.runs.cancel(&principal, id, within).await?;
    let status = if run.status.is_terminal() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(run)))
}

/// The run goes on: 202, whether this request or the same one before it has answered.
pub(super) async fn input(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    RunId(id): RunId,
    change: Change,
) -> Result<impl IntoResponse, ApiError> {
    let command = match change.parse::<DeliverInput>() {
        Ok(command) => command,
        Err(malformed) => return Err(services.runs.missing_or(&principal, id, malformed).await.into()),
    };
    Ok((StatusCode::ACCEPTED, Json(services.runs.input(&principal, id, command).await?)))
}
