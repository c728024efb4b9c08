//! From a listener to the end of its last request.

use std::future::IntoFuture;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use baton_core::error::chain;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How long requests may take to finish once the server stops. Streams end themselves at once, on the same token.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Serves until `shutdown` is cancelled (the token of the router's state), then stops accepting and lets requests finish, for
/// ten seconds at most: whoever is connected then is cut off when the process ends.
///
/// # Errors
/// The listener's.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> io::Result<()> {
    let listener = listener.tap_io(|socket| {
        // A small frame must not wait for the acknowledgement of the one before it (Nagle's algorithm).
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(error = chain(&error), "a socket keeps its delay");
        }
    });
    let server = axum::serve(listener, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    tokio::select! {
        ended = server.into_future() => ended,
        () = drained(shutdown) => {
            tracing::warn!("requests were still running {} s after the server began to stop", DRAIN_MAX.as_secs());
            Ok(())
        }
    }
}

async fn drained(shutdown: CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(DRAIN_MAX).await;
}
