//! How errors look on the wire: one status for each code, one envelope for each error, on every route.
//!
//! A handler's error becomes a response without a body that carries the error along; where the request's id is known, outside
//! of everything, [`render`] writes the envelope and logs what operators have to know.

use std::any::Any;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use baton_core::error::chain;
use baton_core::{Code, Error, Resource};
use serde::Serialize;
use serde_json::Value;

/// What a handler answers when it cannot answer.
#[derive(Debug)]
pub(crate) struct ApiError(Error);

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

/// An error on its way out.
#[derive(Clone)]
struct Unrendered(Arc<Error>);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = status(self.0.code()).into_response();
        response.extensions_mut().insert(Unrendered(Arc::new(self.0)));
        response
    }
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Inside<'a>,
}

#[derive(Serialize)]
struct Inside<'a> {
    code: &'static str,
    message: String,
    details: Value,
    request_id: &'a str,
}

/// Writes the envelope of a response that carries an error; any other passes.
pub(crate) fn render(mut response: Response, request_id: &str) -> Response {
    let Some(Unrendered(error)) = response.extensions_mut().remove() else { return response };
    log(&error);
    let inside = Inside { code: error.code().as_str(), message: error.to_string(), details: error.details(), request_id };
    let envelope = serde_json::to_vec(&Envelope { error: inside }).expect("strings and JSON values serialize");
    *response.body_mut() = Body::from(envelope);
    let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().extend([Some(json), advice(&error)].into_iter().flatten());
    response
}

/// The header that tells a client what to do about an error.
fn advice(error: &Error) -> Option<(HeaderName, HeaderValue)> {
    match error {
        Error::Authentication => Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        Error::RateLimited(cap) => Some((header::RETRY_AFTER, HeaderValue::from(cap.retry_after_seconds()))),
        Error::Unavailable { retry_after_seconds, .. } => Some((header::RETRY_AFTER, HeaderValue::from(*retry_after_seconds))),
        _ => None,
    }
}

/// Logs what is not the caller's fault, with its causes. This is the one place where an error of a request is handled.
pub(crate) fn log(error: &Error) {
    match error {
        Error::Internal(_) | Error::ArtifactStorage { .. } => tracing::error!(error = chain(error), "a request failed"),
        Error::Unavailable { .. } => tracing::warn!(error = chain(error), "a request could not be served"),
        other => tracing::debug!(code = other.code().as_str(), "a request was refused"),
    }
}

/// The table of domain.md: exhaustive, so that a new code does not compile without its status.
pub(crate) const fn status(code: Code) -> StatusCode {
    match code {
        Code::MalformedRequest => StatusCode::BAD_REQUEST,
        Code::AuthenticationError => StatusCode::UNAUTHORIZED,
        Code::BudgetExceeded => StatusCode::PAYMENT_REQUIRED,
        Code::AuthorizationError | Code::ToolPolicyDenied => StatusCode::FORBIDDEN,
        Code::NotFound | Code::ToolNotFound => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::Conflict
        | Code::InvalidStateTransition
        | Code::ConcurrencyConflict
        | Code::ApprovalRequired
        | Code::ApprovalDenied
        | Code::ApprovalExpired
        | Code::RunCancelled
        | Code::ToolLoopDetected => StatusCode::CONFLICT,
        Code::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::MisdirectedRequest => StatusCode::MISDIRECTED_REQUEST,
        Code::ToolValidationError | Code::ContextOverflow => StatusCode::UNPROCESSABLE_ENTITY,
        Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Code::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
        Code::NotImplemented => StatusCode::NOT_IMPLEMENTED,
        Code::ToolExecutionError
        | Code::ToolResultInvalid
        | Code::ModelPermanentError
        | Code::ModelProtocolError
        | Code::SandboxExecutionError => StatusCode::BAD_GATEWAY,
        Code::ServiceUnavailable | Code::ModelTransientError | Code::SandboxProvisionError | Code::ArtifactStorageError => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Code::DeadlineExceeded | Code::RunDeadlineExceeded | Code::ToolTimeout => StatusCode::GATEWAY_TIMEOUT,
    }
}

pub(crate) async fn no_such_route() -> ApiError {
    Error::NotFound(Resource::Route).into()
}

/// axum adds `Allow`.
pub(crate) async fn no_such_method() -> ApiError {
    Error::MethodNotAllowed.into()
}

/// A panic of a handler is a defect like any other: the caller learns nothing, the log where it happened. What it said may repeat
/// what people or the database said, and is read by nobody.
pub(crate) fn panicked(_payload: Box<dyn Any + Send>) -> Response {
    ApiError::from(panic_error()).into_response()
}

pub(crate) fn panic_error() -> Error {
    Error::internal("a handler panicked")
}

#[cfg(test)]
mod tests;
