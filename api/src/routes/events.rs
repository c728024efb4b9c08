//! The events of a run, as a stream.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use baton_core::events::Followed;

use super::runs;
use crate::error::ApiError;
use crate::extract::{Caller, Query, RunId};
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
    Ok(match state.services.runs.follow(&principal, id, cursor).await? {
        Followed::Stream(frames) => sse::answer(&state, &principal, frames, cursor.unwrap_or(0)),
        Followed::NothingMissing => StatusCode::NO_CONTENT.into_response(),
    })
}
