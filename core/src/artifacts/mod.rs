//! Artifacts: bytes that runs produce. The bytes are in an object store, never in Postgres.

use uuid::Uuid;

/// Bytes that are in the store and whose row is written with the result of the call that made them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewArtifact {
    /// That of the invocation.
    pub id: Uuid,
    pub name: String,
    pub media_type: String,
    /// Lower-case hexadecimal.
    pub sha256: String,
    pub size_bytes: i64,
}

/// Where one call puts bytes.
#[derive(Debug)]
pub struct ArtifactWriter;
