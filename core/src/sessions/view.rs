//! A session as clients see it.

use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::closed_set::closed_set;

closed_set! {
    SessionStatus {
        Active = "ACTIVE",
        Closed = "CLOSED",
    }
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SessionView {
    pub id: Uuid,
    #[schema(min_length = 1, max_length = 255)]
    pub principal_id: String,
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$")]
    pub agent_id: String,
    #[schema(pattern = "^[A-Za-z0-9._+-]{1,64}$")]
    pub agent_version: String,
    pub status: SessionStatus,
    /// The beginning of the first message.
    #[schema(required, max_length = 64)]
    pub title: Option<String>,
    #[schema(value_type = Object)]
    pub metadata: Box<RawValue>,
    /// The run that is not finished, if there is one.
    #[schema(required)]
    pub active_run_id: Option<Uuid>,
    #[schema(required)]
    pub last_run_id: Option<Uuid>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}
