//! Messages: submitting one makes a run; all of them are the transcript.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use baton_core::Services;
use baton_core::events::Followed;
use baton_core::runs::{SubmitMessage, Submitted};
use baton_core::{Error, Principal, Scope};

use super::{answer, sessions};
use crate::connection::Stall;
use crate::error::ApiError;
use crate::extract::{Caller, Creation, Query, SessionId};
use crate::list::ListQuery;
use crate::sse;
use crate::state::ApiState;
use crate::streams::Place;

pub(super) async fn list(
    State(services): State<Arc<Services>>,
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

/// On a stream, which has no room for it elsewhere.
const RUN_ID: HeaderName = HeaderName::from_static("baton-run-id");

/// With `Accept: text/event-stream` the answer is the run's stream itself; who goes away cancels nothing.
pub(super) async fn submit(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    SessionId(session_id): SessionId,
    stall: Stall,
    creation: Creation,
) -> Result<Response, ApiError> {
    let services = &state.services;
    // Before anything is stored: a run whose stream is refused would have to be found again.
    let place = match creation.wants_stream().then(|| place(&state, &principal, stall)).transpose() {
        Ok(place) => place,
        Err(limited @ Error::RateLimited(_)) => {
            return Err(services.sessions.missing_or(&principal, session_id, limited).await.into());
        }
        Err(error) => return Err(error.into()),
    };
    let (key, command) = match creation.parse::<SubmitMessage>() {
        Ok(parsed) => parsed,
        Err(malformed) => return Err(services.sessions.missing_or(&principal, session_id, malformed).await.into()),
    };
    let command = SubmitMessage { traceparent: creation.traceparent(), ..command };
    let submitted = services.runs.submit(&principal, session_id, key, command).await?;
    if let Some(place) = place {
        return stream(&state, place, &principal, &submitted).await;
    }
    let location = format!("/v1/runs/{}", submitted.run_id);
    Ok(if submitted.replayed {
        answer::replayed(location, submitted)
    } else {
        answer::created(StatusCode::ACCEPTED, location, submitted)
    })
}

fn place(state: &ApiState, principal: &Principal, stall: Stall) -> Result<Place, Error> {
    principal.require(Scope::RunRead)?;
    state.streams.take_place(principal, stall)
}

/// From the run's start, also where the message had been sent before.
async fn stream(state: &ApiState, place: Place, principal: &Principal, submitted: &Submitted) -> Result<Response, ApiError> {
    let mut response = match state.services.runs.follow(principal, submitted.run_id, None).await? {
        Followed::Stream(frames) => sse::answer(state, place, principal, frames, 0),
        Followed::NothingMissing => StatusCode::NO_CONTENT.into_response(), // cannot be: a run has events
    };
    let id = HeaderValue::from_str(&submitted.run_id.to_string()).map_err(Error::internal)?;
    response.headers_mut().insert(RUN_ID, id);
    if submitted.replayed {
        response.headers_mut().insert(answer::REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}
