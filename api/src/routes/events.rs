//! The events of a run, or of a whole session, as a stream.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use baton_core::events::Followed;

use super::{runs, sessions};
use crate::error::ApiError;
use crate::extract::{Caller, Query, RunId, SessionId};
use crate::state::ApiState;
use crate::{cursor, sse};

/// Every check that can fail is made before the first byte. 204, with nothing missing, tells an `EventSource` to stop.
pub(super) async fn follow(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    RunId(id): RunId,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let cursor = match cursor::requested(&headers, &query) {
        Ok(cursor) => cursor,
        Err(malformed) => return Err(runs::missing_or(&state.services, &principal, id, malformed).await.into()),
    };
    let followed = state.services.runs.follow(&principal, id, cursor).await?;
    Ok(answer(&state, followed, cursor))
}

/// The same of a session: every event of it, until it is closed. The cursors are the same, too.
pub(super) async fn follow_session(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    SessionId(id): SessionId,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let cursor = match cursor::requested(&headers, &query) {
        Ok(cursor) => cursor,
        Err(malformed) => return Err(sessions::unreadable_or(&state.services, &principal, id, malformed).await.into()),
    };
    let followed = state.services.sessions.follow(&principal, id, cursor).await?;
    Ok(answer(&state, followed, cursor))
}

fn answer(state: &ApiState, followed: Followed, cursor: Option<i64>) -> Response {
    match followed {
        Followed::Stream(frames) => sse::answer(state, frames, cursor.unwrap_or(0)),
        Followed::NothingMissing => StatusCode::NO_CONTENT.into_response(),
    }
}
