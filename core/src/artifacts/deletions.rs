//! Bytes whose rows were deleted with their session: the queue of them, until the store has deleted them.
//!
//! Who works on it needs no lock: what two delete is deleted once.

use futures::{StreamExt, stream};
use sqlx::PgPool;
use uuid::Uuid;

use crate::artifacts::ArtifactStore;
use crate::artifacts::store::{self, Queued};
use crate::error::{Error, chain};

/// Deletions of one pass.
const BATCH_MAX: i64 = 500;

/// Requests to the store at once.
const AT_ONCE: usize = 8;

impl ArtifactStore {
    /// Deletes what is due in the queue, a bounded number; how many those were. What the store fails to delete stays and is
    /// tried again later, behind all others.
    ///
    /// # Errors
    /// The database's.
    pub async fn delete_queued(&self, pool: &PgPool) -> Result<usize, Error> {
        let due = store::due_deletions(pool, BATCH_MAX).await?;
        let mut answers = stream::iter(due).map(|queued| self.delete_one(queued)).buffer_unordered(AT_ONCE);
        let (mut deleted, mut failed) = (Vec::new(), Vec::new());
        while let Some((artifact_id, is_deleted)) = answers.next().await {
            let answered = if is_deleted { &mut deleted } else { &mut failed };
            answered.push(artifact_id);
        }
        if !deleted.is_empty() {
            store::forget_deletions(pool, &deleted).await?;
        }
        if !failed.is_empty() {
            store::postpone_deletions(pool, &failed).await?;
        }
        Ok(deleted.len())
    }

    async fn delete_one(&self, queued: Queued) -> (Uuid, bool) {
        let Queued { artifact_id, session_id, tenant_id } = queued;
        let answer = self.delete(&tenant_id, session_id, artifact_id).await;
        if let Err(error) = &answer {
            tracing::warn!(%artifact_id, error = chain(error), "bytes were not deleted; trying again later");
        }
        (artifact_id, answer.is_ok())
    }
}
