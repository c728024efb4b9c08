//! An answer within a bounded time, whatever the database does.
//!
//! The pool gives up after five seconds and statements are bounded by the database. A database that is frozen, or behind a route
//! that is gone, does neither refuse nor bound anything: then the bound is here.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use baton_core::Error;
use baton_core::runs::WAIT_MAX;
use http_body_util::BodyExt;
use tokio_util::sync::CancellationToken;

use crate::error::ApiError;
use crate::extract::Query;

/// Longer than the pool's five seconds and the statement's ten: whatever they say is more precise.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// When to come back, in seconds: by then a database that was restarted answers.
const RETRY_AFTER_SECONDS: u32 = 5;

/// Answers for a handler that does not. What it was writing may be stored all the same: that is what idempotency keys are for.
pub(crate) async fn answered(request: Request, next: Next) -> Response {
    let answer_max = if Query::parse(request.uri()).may_wait() { ANSWER_MAX + WAIT_MAX } else { ANSWER_MAX };
    // The client's time is not the database's: it counts from the end of the body, which has a time-out of its own.
    let is_read = CancellationToken::new();
    let until_dropped = is_read.clone().drop_guard();
    let request = request.map(|body| {
        if body.is_end_stream() {
            return body;
        }
        Body::new(body.map_frame(move |frame| {
            let _until_dropped = &until_dropped;
            frame
        }))
    });
    tokio::select! {
        response = next.run(request) => response,
        () = passed(&is_read, answer_max) => {
            ApiError::from(Error::Unavailable { retry_after_seconds: RETRY_AFTER_SECONDS, source: None }).into_response()
        }
    }
}

async fn passed(is_read: &CancellationToken, time: Duration) {
    is_read.cancelled().await;
    tokio::time::sleep(time).await;
}
