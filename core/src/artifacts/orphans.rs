//! Bytes without a row: of calls whose result was never committed.
//!
//! Who collects needs no lock: whatever two collectors find, both may delete.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::{ObjectMeta, ObjectStoreExt};
use sqlx::PgPool;
use uuid::Uuid;

use crate::artifacts::objects::ArtifactStore;
use crate::artifacts::{key, store};
use crate::error::Error;

/// Age at which bytes without a row may go: far longer than a call, its retries and its commit take, so that what is being
/// written is never looked at.
pub const ORPHAN_AGE_MIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Objects looked at in one call: one query of as many identifiers, and a moment of file names.
pub const ORPHAN_BATCH_MAX: usize = 1_000;

/// Where a pass over the store stands. The listing itself is kept, and no key to go on after: a folder lists in no order.
pub(super) struct Listing(BoxStream<'static, object_store::Result<ObjectMeta>>);

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listing")
    }
}

impl ArtifactStore {
    /// Looks at the next objects, `at_most` of them, and deletes those that are older and wanted by nobody; the number of
    /// those. Calls go on where the last one stopped, and begin again after the end.
    ///
    /// # Errors
    /// `Unavailable` without the database, `Internal` without the store. The next call begins anew.
    pub async fn collect_orphans(&self, pool: &PgPool, older_than: Duration, at_most: usize) -> Result<usize, Error> {
        let before = SystemTime::from(self.clock.now() - older_than);
        let taken = self.listing.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut listing = match taken {
            Some(listing) => listing,
            None => self.begin_pass(before).await?,
        };
        let mut old = Vec::new();
        let mut looked_at = 0;
        while looked_at < at_most {
            let Some(object) = listing.0.next().await.transpose().map_err(Error::internal)? else { break };
            looked_at += 1;
            // A file that is none of ours stays: nobody asked us to tidy up.
            if let Some(id) = key::artifact_id(&object.location)
                && SystemTime::from(object.last_modified) < before
            {
                old.push((id, object.location));
            }
        }
        let ids: Vec<_> = old.iter().map(|(id, _)| *id).collect();
        let wanted: HashSet<_> =
            if ids.is_empty() { HashSet::new() } else { store::wanted(pool, &ids).await?.into_iter().collect() };
        let mut deleted = 0;
        for (_, key) in old.iter().filter(|(id, _)| !wanted.contains(id)) {
            match self.objects.delete(key).await {
                Ok(()) => deleted += 1,
                Err(object_store::Error::NotFound { .. }) => {} // another collector was here
                Err(error) => return Err(Error::internal(error)),
            }
        }
        if looked_at == at_most {
            *self.listing.lock().unwrap_or_else(PoisonError::into_inner) = Some(listing);
        }
        Ok(deleted)
    }

    async fn begin_pass(&self, before: SystemTime) -> Result<Listing, Error> {
        let folder = self.folder.clone();
        tokio::task::spawn_blocking(move || remove_partial(&folder, before)).await.map_err(Error::internal)?;
        Ok(Listing(self.objects.list(None)))
    }
}

/// Deletes what uploads left that were killed in the middle: the object store names them `<artifact>#<n>` and lists them to
/// nobody. What cannot be read or deleted is left to the next pass.
fn remove_partial(folder: &Path, before: SystemTime) {
    for tenant in entries(folder) {
        for session in entries(&tenant.path()) {
            for file in entries(&session.path()) {
                let is_old = file.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|modified| modified < before);
                if is_old && file.file_name().to_str().is_some_and(is_partial) {
                    let _ = std::fs::remove_file(file.path());
                }
            }
        }
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = std::fs::DirEntry> {
    std::fs::read_dir(folder).into_iter().flatten().flatten()
}

fn is_partial(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('#').is_some_and(|(id, number)| id.parse::<Uuid>().is_ok() && is_number(number))
}
