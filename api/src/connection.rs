//! One connection, from its first byte to its last: HTTP/1.1 or HTTP/2, under time-outs, and out of the way when the server
//! stops.
//!
//! hyper reads and writes. What it cannot time is timed here, by what passes through the socket: a connection that has not said
//! which protocol it speaks, a client that takes nothing of its answer, and silence between two requests.

mod progress;
mod socket;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use baton_core::config::Server;
use baton_core::error::chain;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::connection::progress::{Patience, Progress, Verdict};
use crate::connection::socket::Socket;

/// How long a stalled client has for the farewell of its stream, once it takes anything again.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long a connection that nobody is served on may take to close once it was asked to: a whole head that came meanwhile is
/// answered, a part of one is not waited for.
const CLOSING: Duration = Duration::from_millis(100);

/// HTTP/2 streams share a connection: the ping tells whether anybody is there.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Both protocols, told apart by the first bytes. What is not HTTP gets hyper's bare 400, and 414 or 431 where a head is too
/// large: there is no request yet that an envelope could name.
pub(crate) struct Protocols {
    http1: Builder<TokioExecutor>,
    either: Builder<TokioExecutor>,
}

/// What a connection of HTTP/2 begins with.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl Protocols {
    pub(crate) fn new(limits: &Server) -> Self {
        Self { http1: builder(limits).http1_only(), either: builder(limits) }
    }

    /// By the first bytes, left where they are: hyper tells the protocols apart by reading them, and then holds twice the buffer
    /// for the rest, as long as a stream lasts.
    async fn of(&self, socket: &TcpStream) -> &Builder<TokioExecutor> {
        let mut begin = [0; HTTP2_PREFACE.len()];
        match socket.peek(&mut begin).await {
            Ok(count) if !HTTP2_PREFACE.starts_with(&begin[..count]) => &self.http1,
            _ => &self.either,
        }
    }
}

fn builder(limits: &Server) -> Builder<TokioExecutor> {
    let mut protocols = Builder::new(TokioExecutor::new());
    // Heads are timed here, since hyper would time the silence between requests with them.
    let head_bytes = usize::try_from(limits.header_bytes_max).unwrap_or(usize::MAX);
    protocols.http1().header_read_timeout(None).max_buf_size(head_bytes);
    protocols
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_header_list_size(limits.header_bytes_max);
    protocols
}

/// Told to every request of a connection once its client has taken nothing for too long.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stall(pub(crate) CancellationToken);

impl<S: Sync> FromRequestParts<S> for Stall {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve(
    socket: TcpStream,
    router: Router,
    protocols: &Protocols,
    limits: &Server,
    shutdown: &CancellationToken,
) {
    let begun = tokio::select! {
        biased;
        () = shutdown.cancelled() => return,
        begun = tokio::time::timeout(limits.idle_timeout, protocols.of(&socket)) => begun,
    };
    let Ok(protocol) = begun else { return };
    let (progress, patience) = (Arc::new(Progress::new()), Patience::new(limits, FAREWELL));
    let stall = Stall::default();
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (router, in_flight) = (router.clone(), Progress::begin(&progress));
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(stall.clone());
        async move {
            let response = router.oneshot(request).await;
            // A request is in flight until the last byte of its answer was handed over.
            response.map(|response| {
                response.map(|body| {
                    body.map_frame(move |frame| {
                        let _until_dropped = &in_flight;
                        frame
                    })
                })
            })
        }
    });
    let io = TokioIo::new(Socket::new(socket, limits.write_timeout + FAREWELL, Arc::clone(&progress)));
    let mut connection = pin!(protocol.serve_connection(io, service));
    let mut is_closing = false;
    loop {
        let look = if is_closing { CLOSING } else { patience.look_interval() };
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error = chain(&*error), "a connection ended");
                }
                return;
            }
            () = shutdown.cancelled(), if !is_closing => {
                connection.as_mut().graceful_shutdown();
                is_closing = true;
            }
            () = tokio::time::sleep(look) => {
                match progress.judge(&patience, Instant::now()) {
                    Verdict::Gone => return,
                    Verdict::Quiet | Verdict::Overdue if is_closing => return,
                    Verdict::Quiet | Verdict::Busy => continue,
                    Verdict::Stalled => stall.0.cancel(),
                    Verdict::Overdue => {}
                }
                // What is in flight ends; a client that had stalled begins anew on another connection.
                connection.as_mut().graceful_shutdown();
                is_closing = true;
            }
        }
    }
}
