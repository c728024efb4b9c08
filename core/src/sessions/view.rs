//! A session as clients see it.

use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::closed_set::closed_set;

closed_set! {
    SessionStatus {
        Active = "ACTIVE",
        Closed = "CLOSED",
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct SessionView {
    pub id: Uuid,
    pub principal_id: String,
    pub agent_id: String,
    pub agent_version: String,
    pub status: SessionStatus,
    pub title: Option<String>,
    pub metadata: Box<RawValue>,
    /// The run that is not finished, if there is one.
    pub active_run_id: Option<Uuid>,
    pub last_run_id: Option<Uuid>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}
