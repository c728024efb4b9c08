//! From a listener to the end of its last connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use baton_core::config::Server;
use baton_core::error::chain;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{self, Protocols};

/// How long requests may take to finish once the server stops. Streams end themselves at once, on the same token.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Wait after the system refused a connection for want of descriptors or memory: others have to end first.
const ACCEPT_RETRY_WAIT: Duration = Duration::from_millis(100);

/// Serves until `shutdown` is cancelled (the token of the router's state), then stops accepting and lets requests finish, for
/// ten seconds at most: whoever is connected then is cut off.
pub async fn serve(listener: TcpListener, router: Router, limits: Arc<Server>, shutdown: CancellationToken) {
    let protocols = Arc::new(Protocols::new(&limits));
    let places = Arc::new(Semaphore::new(usize::try_from(limits.max_connections).unwrap_or(Semaphore::MAX_PERMITS)));
    let (connections, cut) = (TaskTracker::new(), CancellationToken::new());
    loop {
        let accepted = async {
            // Before it is accepted: one more than we have room for waits in the system's queue, and holds nothing of ours.
            let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
            (accept(&listener).await, place)
        };
        let (socket, place) = tokio::select! {
            biased; // the busiest listener must not miss the end
            () = shutdown.cancelled() => break,
            accepted = accepted => accepted,
        };
        let (router, limits, protocols) = (router.clone(), Arc::clone(&limits), Arc::clone(&protocols));
        let (shutdown, cut) = (shutdown.clone(), cut.clone());
        connections.spawn(async move {
            let _place = place;
            cut.run_until_cancelled(connection::serve(socket, router, &protocols, &limits, &shutdown)).await;
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN_MAX, connections.wait()).await.is_err() {
        tracing::warn!("requests were still running {} s after the server began to stop", DRAIN_MAX.as_secs());
        cut.cancel();
        connections.wait().await;
    }
}

/// The next connection, however many there are that cannot be had.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => return socket,
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(error = chain(&error), "no connection can be accepted");
                tokio::time::sleep(ACCEPT_RETRY_WAIT).await;
            }
        }
    }
}

/// Whether only the one that was about to be accepted is gone.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
