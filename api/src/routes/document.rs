//! The OpenAPI document.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::IntoResponse;
use bytes::Bytes;

use crate::error::ApiError;
use crate::extract::Query;
use crate::openapi;

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| openapi::document().to_string().into());

pub(super) async fn get(query: Query) -> Result<impl IntoResponse, ApiError> {
    query.refuse()?;
    Ok(([(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone()))
}
