//! What every request can reach.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRef;
use baton_core::Services;
use baton_core::clock::Clock;
use baton_core::config::Server;
use tokio_util::sync::CancellationToken;

use crate::auth::Authenticator;
use crate::cors::CorsOrigins;
use crate::host::Bind;
use crate::streams::Streams;

/// Cheap to clone: everything in it is shared.
#[derive(Debug, Clone, FromRef)]
pub struct ApiState {
    pub services: Arc<Services>,
    pub authenticator: Arc<dyn Authenticator>,
    pub clock: Clock,
    /// What the listener is bound to; decides which hosts are answered.
    pub bind: Bind,
    /// Pages elsewhere that may ask.
    pub cors_origins: CorsOrigins,
    /// Those that [`crate::serve`] is given.
    pub limits: Arc<Server>,
    pub streams: Streams,
    /// The token that [`crate::serve`] is given: streams end when it is cancelled.
    pub shutdown: CancellationToken,
    /// Longest silence of a stream; [`crate::HEARTBEAT`], or less in tests.
    pub heartbeat: Duration,
}
