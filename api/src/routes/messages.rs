//! Messages: submitting one makes a run; all of them are the transcript.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use baton_core::Services;
use baton_core::runs::SubmitMessage;

use super::{answer, sessions};
use crate::error::ApiError;
use crate::extract::{Caller, Creation, Query, SessionId};
use crate::list::ListQuery;

pub(super) async fn list(
    State(services): State<Services>,
    Caller(principal): Caller,
    SessionId(session_id): SessionId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let request = match ListQuery::new(&query, &[]).page() {
        Ok(request) => request,
        Err(malformed) => return Err(sessions::unreadable_or(&services, &principal, session_id, malformed).await.into()),
    };
    Ok(Json(services.sessions.messages(&principal, session_id, &request).await?))
}

pub(super) async fn submit(
    State(services): State<Services>,
    Caller(principal): Caller,
    SessionId(session_id): SessionId,
    creation: Creation,
) -> Result<Response, ApiError> {
    let (key, command) = match creation.parse::<SubmitMessage>() {
        Ok(parsed) => parsed,
        Err(malformed) => return Err(services.sessions.missing_or(&principal, session_id, malformed).await.into()),
    };
    let command = SubmitMessage { traceparent: creation.traceparent(), ..command };
    let submitted = services.runs.submit(&principal, session_id, key, command).await?;
    let location = format!("/v1/runs/{}", submitted.run_id);
    Ok(if submitted.replayed {
        answer::replayed(location, submitted)
    } else {
        answer::created(StatusCode::ACCEPTED, location, submitted)
    })
}
