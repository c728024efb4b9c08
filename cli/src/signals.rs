//! The signals that end a process.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancelled by the first SIGINT or SIGTERM. The second ends the process at once, for whoever does not want to wait.
pub(crate) fn shutdown() -> std::io::Result<CancellationToken> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        next().await;
        cancelled.cancel();
        next().await;
        std::process::exit(130);
    });
    Ok(token)
}
