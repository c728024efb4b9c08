//! The events of a run or of a whole session: a stream, or, of a run, pages for those who cannot follow one.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use baton_core::events::Followed;
use baton_core::runs::EventPage;
use baton_core::{Error, Principal};
use uuid::Uuid;

use super::sessions;
use crate::connection::Stall;
use crate::error::ApiError;
use crate::extract::{Caller, Query, RunId, SessionId};
use crate::state::ApiState;
use crate::streams::Place;
use crate::{cursor, headers, sse};

pub(super) async fn follow(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    RunId(id): RunId,
    query: Query,
    stall: Stall,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let wants_page = headers::accepts(&headers, "application/json") && !headers::accepts(&headers, "text/event-stream");
    let answer = if wants_page {
        page(&state, &principal, id, &query).await.map(|page| Json(page).into_response())
    } else {
        stream(&state, &principal, id, stall, &query, &headers).await
    };
    match answer {
        Err(refused @ (Error::RateLimited(_) | Error::Malformed(_))) => {
            Err(state.services.runs.unreadable_or(&principal, id, refused).await.into())
        }
        answer => Ok(answer?),
    }
}

/// Every check that can fail is made before the first byte. 204, with nothing missing, tells an `EventSource` to stop.
async fn stream(
    state: &ApiState,
    principal: &Principal,
    id: Uuid,
    stall: Stall,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    let place = state.streams.take_place(principal, stall)?;
    let cursor = cursor::requested(headers, query)?;
    let followed = state.services.runs.follow(principal, id, cursor).await?;
    Ok(stream_of(state, place, principal, followed, cursor))
}

/// The same of a session: every event of it, until it is closed. The cursors are the same, too.
pub(super) async fn follow_session(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    SessionId(id): SessionId,
    query: Query,
    stall: Stall,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let allowed = state.streams.take_place(&principal, stall).and_then(|place| Ok((place, cursor::requested(&headers, &query)?)));
    let (place, cursor) = match allowed {
        Ok(allowed) => allowed,
        Err(refused) => return Err(sessions::unreadable_or(&state.services, &principal, id, refused).await.into()),
    };
    let followed = state.services.sessions.follow(&principal, id, cursor).await?;
    Ok(stream_of(&state, place, &principal, followed, cursor))
}

fn stream_of(state: &ApiState, place: Place, principal: &Principal, followed: Followed, cursor: Option<i64>) -> Response {
    match followed {
        Followed::Stream(frames) => sse::answer(state, place, principal, frames, cursor.unwrap_or(0)),
        Followed::NothingMissing => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn page(state: &ApiState, principal: &Principal, id: Uuid, query: &Query) -> Result<EventPage, Error> {
    let (after, limit) = cursor::page(query)?;
    state.services.runs.events(principal, id, after, limit).await
}
