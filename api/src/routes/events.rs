//! The events of a run or of a whole session: a stream, or pages for those who cannot follow one.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use baton_core::events::Followed;
use baton_core::{Error, Principal};
use uuid::Uuid;

use super::sessions;
use crate::connection::Stall;
use crate::error::ApiError;
use crate::extract::{Caller, Query, RunId, SessionId};
use crate::state::ApiState;
use crate::streams::Place;
use crate::{cursor, headers, sse};

pub(super) async fn of_run(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    RunId(id): RunId,
    query: Query,
    stall: Stall,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let answer = if wants_page(&headers) {
        page_of_run(&state, &principal, id, &query).await
    } else {
        stream_of_run(&state, &principal, id, stall, &query, &headers).await
    };
    match answer {
        Err(refused @ (Error::RateLimited(_) | Error::Malformed(_))) => {
            Err(state.services.runs.unreadable_or(&principal, id, refused).await.into())
        }
        answer => Ok(answer?),
    }
}

async fn stream_of_run(
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
    Ok(stream(state, place, principal, followed, cursor))
}

async fn page_of_run(state: &ApiState, principal: &Principal, id: Uuid, query: &Query) -> Result<Response, Error> {
    let (after, limit) = cursor::page(query)?;
    Ok(Json(state.services.runs.events(principal, id, after, limit).await?).into_response())
}

/// The same of a session: every event of it, until it is closed. The cursors are the same, too.
pub(super) async fn of_session(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    SessionId(id): SessionId,
    query: Query,
    stall: Stall,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let answer = if wants_page(&headers) {
        page_of_session(&state, &principal, id, &query).await
    } else {
        stream_of_session(&state, &principal, id, stall, &query, &headers).await
    };
    match answer {
        Err(refused @ (Error::RateLimited(_) | Error::Malformed(_))) => {
            Err(sessions::unreadable_or(&state.services, &principal, id, refused).await.into())
        }
        answer => Ok(answer?),
    }
}

async fn stream_of_session(
    state: &ApiState,
    principal: &Principal,
    id: Uuid,
    stall: Stall,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    let place = state.streams.take_place(principal, stall)?;
    let cursor = cursor::requested(headers, query)?;
    let followed = state.services.sessions.follow(principal, id, cursor).await?;
    Ok(stream(state, place, principal, followed, cursor))
}

async fn page_of_session(state: &ApiState, principal: &Principal, id: Uuid, query: &Query) -> Result<Response, Error> {
    let (after, limit) = cursor::page(query)?;
    Ok(Json(state.services.sessions.events(principal, id, after, limit).await?).into_response())
}

fn wants_page(headers: &HeaderMap) -> bool {
    headers::accepts(headers, "application/json") && !headers::accepts(headers, "text/event-stream")
}

/// Every check that can fail was made before the first byte. 204, with nothing missing, tells an `EventSource` to stop.
fn stream(state: &ApiState, place: Place, principal: &Principal, followed: Followed, cursor: Option<i64>) -> Response {
    match followed {
        Followed::Stream(frames) => sse::answer(state, place, principal, frames, cursor.unwrap_or(0)),
        Followed::NothingMissing => StatusCode::NO_CONTENT.into_response(),
    }
}
