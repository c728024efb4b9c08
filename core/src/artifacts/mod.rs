//! Artifacts: bytes that runs produce. The bytes are in an object store, never in Postgres.
//!
//! Bytes first, then their row, in the transaction of the result that they belong to: a row never lacks its bytes. Bytes
//! whose row never came are orphans, which maintenance collects; those of a deleted session are queued with the deletion of
//! their rows. No transaction is open while the object store is asked for anything.

mod deletions;
mod key;
mod media;
mod objects;
mod orphans;
mod service;
mod store;
mod view;
mod writer;

use uuid::Uuid;

pub use objects::{ArtifactStore, OpenError};
pub use orphans::{ORPHAN_AGE_MIN, ORPHAN_BATCH_MAX};
pub use service::{ArtifactBytes, ArtifactService};
pub use view::ArtifactView;
pub use writer::{ARTIFACT_BYTES_MAX, ArtifactWriter};

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

#[cfg(test)]
mod tests;
