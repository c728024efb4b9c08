//! Sessions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use baton_core::sessions::{CreateSession, Created};
use baton_core::{Error, Principal, Services};
use uuid::Uuid;

use super::answer;
use crate::error::ApiError;
use crate::extract::{Caller, Creation, Query, SessionId};
use crate::list::ListQuery;

pub(super) async fn create(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    creation: Creation,
) -> Result<Response, ApiError> {
    let (key, command) = creation.parse::<CreateSession>()?;
    let Created { session, replayed } = services.sessions.create(&principal, key, command).await?;
    let location = format!("/v1/sessions/{}", session.id);
    Ok(if replayed { answer::replayed(location, session) } else { answer::created(StatusCode::CREATED, location, session) })
}

pub(super) async fn list(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let request = ListQuery::new(&query, &[]).page()?;
    Ok(Json(services.sessions.list(&principal, &request).await?))
}

pub(super) async fn get(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    SessionId(id): SessionId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let session = services.sessions.get(&principal, id).await?;
    query.refuse()?; // after it: what is not there is 404, however it is asked for
    Ok(Json(session))
}

pub(super) async fn close(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    SessionId(id): SessionId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    if let Err(malformed) = query.refuse() {
        return Err(services.sessions.missing_or(&principal, id, malformed).await.into());
    }
    Ok(Json(services.sessions.close(&principal, id).await?))
}

pub(super) async fn delete(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    SessionId(id): SessionId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    if let Err(malformed) = query.refuse() {
        return Err(services.sessions.missing_or(&principal, id, malformed).await.into());
    }
    services.sessions.delete(&principal, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A wish to read a session that is wrong in itself: `NotFound` comes before what is wrong. Who may read its runs and not it
/// gets what is wrong, which tells nothing of the session.
pub(super) async fn unreadable_or(services: &Services, principal: &Principal, id: Uuid, error: Error) -> Error {
    match services.sessions.get(principal, id).await {
        Ok(_) | Err(Error::Authorization(_)) => error,
        Err(missing) => missing,
    }
}
