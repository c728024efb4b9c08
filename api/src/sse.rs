//! Writing a stream of events. Which frames there are, and in which order, was decided in core; here they become bytes, with
//! comments where there is silence and a farewell where the stream ends before its run.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use baton_core::clock::Clock;
use baton_core::events::{EventStream, Frame, StreamError};
use baton_core::{Error, Principal};
use bytes::{Bytes, BytesMut};
use futures::{FutureExt, StreamExt, stream};
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::error;
use crate::state::ApiState;
use crate::streams::Place;

/// Longest silence of a stream: below the time-outs of common proxies, and a client that has gone is noticed by it.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long clients wait before they reconnect, in milliseconds. Drawn for each stream, or all that a restart has cut off
/// would return at once.
const RETRY_MS_MIN: u128 = 500;
const RETRY_MS_MAX: u128 = 1_500;

const HEARTBEAT_CHUNK: Bytes = Bytes::from_static(b": hb\n\n");

/// Answers with a stream that began after `cursor`. There is no queue in it: the next frames are asked for when the socket has
/// taken the last ones, so that a client that does not read holds one chunk.
pub(crate) fn answer(state: &ApiState, place: Place, principal: &Principal, frames: EventStream, cursor: i64) -> Response {
    let writer = Writer {
        place,
        phase: Phase::Opening,
        frames,
        last_sequence: cursor,
        retry_ms: retry_ms(&state.clock),
        heartbeat: state.heartbeat,
        write_timeout: state.limits.write_timeout,
        written_at: Instant::now(),
        shutdown: state.shutdown.clone(),
        clock: state.clock.clone(),
        expires_at: principal.expires_at,
    };
    let span = Span::current(); // the body is written after the request's own span has been left
    let chunks = stream::unfold(writer, move |mut writer| {
        async move {
            let chunk = writer.next_chunk().await?;
            writer.written_at = Instant::now();
            Some((Ok::<_, Infallible>(chunk), writer))
        }
        .instrument(span.clone())
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform")),
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(chunks)).into_response()
}

fn retry_ms(clock: &Clock) -> u128 {
    // The tail of a UUIDv7 is random.
    RETRY_MS_MIN + clock.new_id().as_u128() % (RETRY_MS_MAX - RETRY_MS_MIN + 1)
}

/// One stream on its way to one socket.
struct Writer {
    place: Place,
    phase: Phase,
    frames: EventStream,
    /// The newest stored event that was written, or where the stream began.
    last_sequence: i64,
    retry_ms: u128,
    heartbeat: Duration,
    write_timeout: Duration,
    /// When the last chunk was handed over: the next one is asked for when there is room for it.
    written_at: Instant,
    shutdown: CancellationToken,
    clock: Clock,
    /// When the credential that opened it ends, and the stream with it: whoever follows has to show a new one.
    expires_at: Option<OffsetDateTime>,
}

enum Phase {
    Opening,
    /// The opening was handed over and may not have left yet.
    Opened,
    Flowing,
    Ended,
}

impl Writer {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if self.written_at.elapsed() >= self.write_timeout && !matches!(self.phase, Phase::Ended) {
            return Some(self.end("stream.overflow"));
        }
        match self.phase {
            Phase::Opening => {
                self.phase = Phase::Opened;
                return Some(Bytes::from(format!("retry: {}\n: open\n\n", self.retry_ms)));
            }
            Phase::Opened => {
                // The connection writes out what it has when there is nothing more at once: before the log is read.
                tokio::task::yield_now().await;
                self.phase = Phase::Flowing;
            }
            Phase::Flowing => {}
            Phase::Ended => return None,
        }
        let left = self.time_left();
        if left.is_zero() {
            return Some(self.end("stream.closing"));
        }
        tokio::select! {
            biased; // a stream with much to say must not miss the end of the server
            () = self.shutdown.cancelled() => Some(self.end("stream.closing")),
            () = self.place.stalled() => Some(self.end("stream.overflow")),
            frames = AssertUnwindSafe(self.frames.next()).catch_unwind() => match frames {
                Ok(Some(Ok(frames))) => Some(self.take(&frames)),
                Ok(Some(Err(StreamError::Overflow))) => Some(self.end("stream.overflow")),
                Ok(Some(Err(StreamError::Failed(error)))) => Some(self.fail(&error)),
                // No layer's net reaches into a body.
                Err(_) => Some(self.fail(&error::panic_error())),
                Ok(None) => None,
            },
            () = tokio::time::sleep(self.heartbeat.min(left)) => {
                Some(if self.time_left().is_zero() { self.end("stream.closing") } else { HEARTBEAT_CHUNK })
            }
        }
    }

    /// How long the credential is good for. Asked for each chunk, so that a clock that was set is noticed with the next heartbeat.
    fn time_left(&self) -> Duration {
        self.expires_at.map_or(Duration::MAX, |at| Duration::try_from(at - self.clock.now()).unwrap_or_default())
    }

    /// Frames that are ready together leave together.
    fn take(&mut self, frames: &[Frame]) -> Bytes {
        for frame in frames {
            if let Frame::Persisted { sequence, .. } = frame {
                self.last_sequence = *sequence;
            }
        }
        match frames {
            [frame] => frame.bytes().clone(),
            frames => {
                let mut chunk = BytesMut::with_capacity(frames.iter().map(|frame| frame.bytes().len()).sum());
                frames.iter().for_each(|frame| chunk.extend_from_slice(frame.bytes()));
                chunk.freeze()
            }
        }
    }

    /// The client resumes: to it a failure of ours looks like a restart of the server.
    fn fail(&mut self, error: &Error) -> Bytes {
        error::log(error);
        self.end("stream.closing")
    }

    /// A farewell, without an id, which would move the client's cursor.
    fn end(&mut self, farewell: &str) -> Bytes {
        self.phase = Phase::Ended;
        Bytes::from(format!("event: {farewell}\ndata: {{\"last_sequence\":{}}}\n\n", self.last_sequence))
    }
}

#[cfg(test)]
mod tests;
