//! An artifact as clients see it. Never where its bytes are.

use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ArtifactView {
    pub id: Uuid,
    pub session_id: Uuid,
    pub run_id: Uuid,
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    #[schema(min_length = 3, max_length = 255)]
    pub media_type: String,
    /// Lower-case hexadecimal.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub sha256: String,
    #[schema(minimum = 0)]
    pub size_bytes: i64,
    #[schema(value_type = Object)]
    pub metadata: Box<RawValue>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}
