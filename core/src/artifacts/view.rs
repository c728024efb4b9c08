//! An artifact as clients see it. Never where its bytes are.

use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use uuid::Uuid;

#[derive(Debug, Clone, Serialize)]
pub struct ArtifactView {
    pub id: Uuid,
    pub session_id: Uuid,
    pub run_id: Uuid,
    pub name: String,
    pub media_type: String,
    /// Lower-case hexadecimal.
    pub sha256: String,
    pub size_bytes: i64,
    pub metadata: Box<RawValue>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}
