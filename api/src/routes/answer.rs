//! The answers to a creation.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Says that the request had been made before.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Something that exists since this request; `status` is 201, or 202 where the work is still to be done.
pub(super) fn created(status: StatusCode, location: String, view: impl Serialize) -> Response {
    (status, [(header::LOCATION, location)], Json(view)).into_response()
}

/// What an earlier request with the same key had created, as it is now.
pub(super) fn replayed(location: String, view: impl Serialize) -> Response {
    let mut response = created(StatusCode::OK, location, view);
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
