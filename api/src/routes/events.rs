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
use crate::{cursor, headers, sse};

pub(super) async fn of_run(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    RunId(id): RunId,
    query: Query,
    stall: Stall,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    answer(&state, &principal, Log::Run(id), stall, &query, &headers).await
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
    answer(&state, &principal, Log::Session(id), stall, &query, &headers).await
}

/// Whose events.
#[derive(Debug, Clone, Copy)]
enum Log {
    Run(Uuid),
    Session(Uuid),
}

async fn answer(
    state: &ApiState,
    principal: &Principal,
    log: Log,
    stall: Stall,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let answer = if wants_page(headers) {
        page(state, principal, log, query).await
    } else {
        stream(state, principal, log, stall, query, headers).await
    };
    match (answer, log) {
        (Err(refused @ (Error::RateLimited(_) | Error::Malformed(_))), Log::Run(id)) => {
            Err(state.services.runs.unreadable_or(principal, id, refused).await.into())
        }
        (Err(refused @ (Error::RateLimited(_) | Error::Malformed(_))), Log::Session(id)) => {
            Err(sessions::unreadable_or(&state.services, principal, id, refused).await.into())
        }
        (answer, _) => Ok(answer?),
    }
}

/// Every check that can fail is made before the first byte. 204, with nothing missing, tells an `EventSource` to stop.
async fn stream(
    state: &ApiState,
    principal: &Principal,
    log: Log,
    stall: Stall,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    let place = state.streams.take_place(principal, stall)?;
    let cursor = cursor::requested(headers, query)?;
    let followed = match log {
        Log::Run(id) => state.services.runs.follow(principal, id, cursor).await?,
        Log::Session(id) => state.services.sessions.follow(principal, id, cursor).await?,
    };
    Ok(match followed {
        Followed::Stream(frames) => sse::answer(state, place, principal, frames, cursor.unwrap_or(0)),
        Followed::NothingMissing => StatusCode::NO_CONTENT.into_response(),
    })
}

async fn page(state: &ApiState, principal: &Principal, log: Log, query: &Query) -> Result<Response, Error> {
    let (after, limit) = cursor::page(query)?;
    let page = match log {
        Log::Run(id) => state.services.runs.events(principal, id, after, limit).await?,
        Log::Session(id) => state.services.sessions.events(principal, id, after, limit).await?,
    };
    Ok(Json(page).into_response())
}

fn wants_page(headers: &HeaderMap) -> bool {
    headers::accepts(headers, "application/json") && !headers::accepts(headers, "text/event-stream")
}
