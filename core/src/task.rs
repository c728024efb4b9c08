//! Work that must not stop half-way.

use std::future::Future;

use tracing::Instrument;

use crate::error::Error;

/// Runs a writing call in its own task: a client that goes away, and a handler that is dropped for it, do not cancel a
/// statement on its way, which would leave a pooled connection in an unknown state.
pub(crate) async fn shielded<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    match tokio::spawn(work.in_current_span()).await {
        Ok(answer) => answer,
        Err(error) => Err(Error::internal(error)),
    }
}
