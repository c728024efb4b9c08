//! Which pages elsewhere may ask us, and read what we answer. None, unless they are named.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::CorsLayer;

/// How long a browser may remember what it was told. Most cap it at two hours.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// Exact origins, as browsers write them.
#[derive(Debug, Clone, Default)]
pub struct CorsOrigins(Arc<[HeaderValue]>);

impl CorsOrigins {
    /// From the configuration, which has been checked; what is no header can be no origin.
    pub fn new(origins: &[String]) -> Self {
        Self(origins.iter().filter_map(|origin| origin.parse().ok()).collect())
    }

    pub(crate) fn contains(&self, origin: &HeaderValue) -> bool {
        self.0.contains(origin)
    }

    /// None where no page is named: then there is nothing to answer, not even a preflight.
    pub(crate) fn layer(&self) -> Option<CorsLayer> {
        const READ: [&str; 9] = [
            "x-request-id",
            "location",
            "idempotency-replayed",
            "baton-run-id",
            "retry-after",
            "etag",
            "accept-ranges",
            "content-range",
            "content-disposition",
        ];
        const SENT: [&str; 7] =
            ["idempotency-key", "last-event-id", "x-request-id", "traceparent", "if-none-match", "if-range", "range"];
        if self.0.is_empty() {
            return None;
        }
        // Each of them by name: with credentials `*` is not a wildcard to browsers, and must not be one to us.
        let layer = CorsLayer::new()
            .allow_origin(self.0.to_vec())
            .allow_credentials(true)
            .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::DELETE])
            .allow_headers(
                [header::AUTHORIZATION, header::CONTENT_TYPE]
                    .into_iter()
                    .chain(SENT.map(HeaderName::from_static))
                    .collect::<Vec<_>>(),
            )
            .expose_headers(READ.map(HeaderName::from_static))
            .max_age(PREFLIGHT_MAX_AGE);
        Some(layer)
    }
}
