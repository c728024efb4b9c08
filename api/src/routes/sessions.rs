//! Sessions.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use baton_core::Services;
use baton_core::sessions::{CreateSession, Created};

use super::answer;
use crate::error::ApiError;
use crate::extract::{Caller, Creation, Query, SessionId};

pub(super) async fn create(
    State(services): State<Services>,
    Caller(principal): Caller,
    creation: Creation,
) -> Result<Response, ApiError> {
    let (key, command) = creation.parse::<CreateSession>()?;
    let Created { session, replayed } = services.sessions.create(&principal, key, command).await?;
    let location = format!("/v1/sessions/{}", session.id);
    Ok(if replayed { answer::replayed(location, session) } else { answer::created(StatusCode::CREATED, location, session) })
}

pub(super) async fn get(
    State(services): State<Services>,
    Caller(principal): Caller,
    SessionId(id): SessionId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let session = services.sessions.get(&principal, id).await?;
    query.refuse()?; // after it: what is not there is 404, however it is asked for
    Ok(Json(session))
}
