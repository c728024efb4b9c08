//! An answer that comes before its request has been read whole.
//!
//! Closing a connection on unread bytes resets it, and the reset overtakes the answer: a client that is still sending would
//! see a broken pipe and never the 413. So whatever a handler leaves unread is read and dropped for a while after it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use baton_core::config::Server;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio::runtime::Handle;
use tokio::time::Sleep;

/// What a client of good will sends by mistake; a larger body is cut off.
const DROPPED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long a connection is kept for a client that should have seen its answer by now.
const LINGER: Duration = Duration::from_secs(2);

/// Keeps reading a request's body after it was answered.
pub(crate) async fn until_sent(State(limits): State<Arc<Server>>, request: Request, next: Next) -> Response {
    // A client that waits for "100 Continue" sends nothing until somebody reads: then there is nothing to drop.
    let is_sent = !request.headers().contains_key(header::EXPECT);
    let request = request.map(|body| {
        if body.is_end_stream() {
            Body::empty()
        } else {
            let overdue = Box::pin(tokio::time::sleep(limits.body_timeout));
            Body::from_stream(Lingering { unread: Some(body.into_data_stream()), is_sent, overdue })
        }
    });
    next.run(request).await
}

/// A body that outlives its reader.
struct Lingering {
    /// None once the end was read.
    unread: Option<BodyDataStream>,
    is_sent: bool,
    overdue: Pin<Box<Sleep>>,
}

/// The body was not whole in time. One that drips must not hold a request for as long as it likes.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the body did not arrive in time")]
pub(crate) struct TooSlow;

impl Stream for Lingering {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(unread) = &mut self.unread else { return Poll::Ready(None) };
        let chunk = match unread.poll_next_unpin(context) {
            Poll::Ready(chunk) => chunk,
            Poll::Pending => {
                ready!(self.overdue.as_mut().poll(context));
                self.unread = None;
                return Poll::Ready(Some(Err(axum::Error::new(TooSlow))));
            }
        };
        self.is_sent = true;
        if !matches!(chunk, Some(Ok(_))) {
            self.unread = None;
        }
        Poll::Ready(chunk)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(unread) = self.unread.take().filter(|_| self.is_sent) else { return };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(tokio::time::timeout(LINGER, read_and_drop(unread)));
        }
    }
}

async fn read_and_drop(mut unread: BodyDataStream) {
    let mut dropped = 0;
    while let Some(Ok(chunk)) = unread.next().await {
        dropped += chunk.len();
        if dropped > DROPPED_BYTES_MAX {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
