//! The queue, for operators.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use baton_core::Services;

use crate::error::ApiError;
use crate::extract::{Caller, Query};

pub(super) async fn get(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    query.refuse()?;
    Ok(Json(services.queue.get(&principal).await?))
}
