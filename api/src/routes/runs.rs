//! Runs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use baton_core::runs::DeliverInput;
use baton_core::{Error, Principal, Services};
use uuid::Uuid;

use crate::error::ApiError;
use crate::extract::{Caller, Change, Query, RunId};

pub(super) async fn get(
    State(services): State<Services>,
    Caller(principal): Caller,
    RunId(id): RunId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let run = services.runs.get(&principal, id).await?;
    query.refuse()?; // after it: what is not there is 404, however it is asked for
    Ok(Json(run))
}

/// 200 once the run has ended, 202 while it is still on its way there.
pub(super) async fn cancel(
    State(services): State<Services>,
    Caller(principal): Caller,
    RunId(id): RunId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    if let Err(malformed) = query.refuse() {
        return Err(missing_or(&services, &principal, id, malformed).await.into());
    }
    let run = services.runs.cancel(&principal, id).await?;
    let status = if run.status.is_terminal() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(run)))
}

/// The run goes on: 202, whether this request or the same one before it has answered.
pub(super) async fn input(
    State(services): State<Services>,
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

/// A request for a run that is wrong in itself: `NotFound` comes before what is wrong. Who may cancel and not read gets what is
/// wrong, which tells nothing of the run.
pub(super) async fn missing_or(services: &Services, principal: &Principal, id: Uuid, error: Error) -> Error {
    match services.runs.get(principal, id).await {
        Ok(_) | Err(Error::Authorization(_)) => error,
        Err(missing) => missing,
    }
}
