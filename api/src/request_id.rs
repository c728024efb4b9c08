//! The name of a request: on every log line of it, on its answer, in its error.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use baton_core::clock::Clock;
use tracing::Instrument;

use crate::{error, headers};

const HEADER: &str = "x-request-id";

/// Longest name that a client may choose, in characters.
const CHARS_MAX: usize = 128;

/// Names a request, and writes the envelope of the error that it ends with. The span has the pattern of the path, never the
/// query or an identifier, so that what clients write does not reach the log; of a caller's trace only what is well-formed.
pub(crate) async fn assign(State(clock): State<Clock>, request: Request, next: Next) -> Response {
    let id = chosen(request.headers()).map_or_else(|| clock.new_id().to_string(), str::to_owned);
    let path = request.extensions().get().map_or("", MatchedPath::as_str);
    // Of the highest level, so that no filter takes the id off the lines that it lets through.
    let traceparent = headers::traceparent(request.headers());
    let span = tracing::error_span!("request", request_id = id, method = request.method().as_str(), path, traceparent);
    let name = HeaderValue::try_from(&id).expect("both kinds of names are visible ASCII");
    async move {
        let began = clock.elapsed();
        let mut response = error::render(next.run(request).await, &id);
        response.headers_mut().insert(HeaderName::from_static(HEADER), name);
        let milliseconds = (clock.elapsed() - began).as_secs_f64() * 1e3;
        tracing::debug!(status = response.status().as_u16(), milliseconds, "answered");
        response
    }
    .instrument(span)
    .await
}

/// The client's own name for its request: echoed, and trusted with nothing. One that we would not write is replaced.
fn chosen(headers: &HeaderMap) -> Option<&str> {
    let name = headers::once(headers, HEADER).ok()??;
    let is_ours = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    ((1..=CHARS_MAX).contains(&name.len()) && name.bytes().all(is_ours)).then_some(name)
}

#[cfg(test)]
mod tests;
