//! The object store: a folder of this machine.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_stream::try_stream;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use object_store::local::LocalFileSystem;
use object_store::{ObjectStore, ObjectStoreExt};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::artifacts::key;
use crate::artifacts::orphans::Listing;
use crate::artifacts::writer::ArtifactWriter;
use crate::canonical;
use crate::clock::Clock;
use crate::config;
use crate::error::Error;

/// Why the store cannot be used at all.
#[derive(Debug, thiserror::Error)]
#[error("`artifacts.folder` ({}) cannot be used", .folder.display())]
pub struct OpenError {
    pub folder: PathBuf,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// The bytes of all artifacts of an installation. Clones share the place where the collection of orphans stands.
#[derive(Debug, Clone)]
pub struct ArtifactStore {
    pub(super) objects: Arc<dyn ObjectStore>,
    /// What [`ArtifactStore::objects`] keeps its objects in.
    pub(super) folder: PathBuf,
    pub(super) clock: Clock,
    pub(super) listing: Arc<Mutex<Option<Listing>>>,
}

impl ArtifactStore {
    /// Creates the folder where it is missing.
    ///
    /// # Errors
    /// [`OpenError`], which names the folder.
    pub fn open(config: &config::Artifacts, clock: Clock) -> Result<Self, OpenError> {
        let failed = |source| OpenError { folder: config.folder.clone(), source };
        std::fs::create_dir_all(&config.folder).map_err(|error| failed(error.into()))?;
        let folder = config.folder.canonicalize().map_err(|error| failed(error.into()))?;
        let objects = LocalFileSystem::new_with_prefix(&folder)
            .map_err(|error| failed(error.into()))?
            // A row must not outlive its bytes when the machine loses power.
            .with_fsync(true)
            // A session's folder goes with its last artifact.
            .with_automatic_cleanup(true);
        Ok(Self { objects: Arc::new(objects), folder, clock, listing: Arc::default() })
    }

    /// For the bytes of one call.
    pub fn writer(&self, tenant_id: &str, session_id: Uuid, invocation_id: Uuid) -> ArtifactWriter {
        let key = key::of(tenant_id, session_id, invocation_id);
        ArtifactWriter { objects: Arc::clone(&self.objects), key, id: invocation_id }
    }

    /// The bytes of an artifact, whose row says what their hash is. Each chunk is kept back until the next one is there, so
    /// that bytes of another hash come short of their length, and end with an error.
    ///
    /// # Errors
    /// `ArtifactStorage` where they are missing or cannot be read.
    pub async fn read(
        &self,
        tenant_id: &str,
        session_id: Uuid,
        id: Uuid,
        sha256: &str,
    ) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
        let missing = |error: object_store::Error| Error::ArtifactStorage { id, source: Box::new(error) };
        let object = self.objects.get(&key::of(tenant_id, session_id, id)).await.map_err(missing)?;
        Ok(verified(object.into_stream(), id, sha256.to_owned()).boxed())
    }

    /// Deletes the bytes of an artifact. What is not there is deleted.
    ///
    /// # Errors
    /// `Internal` where the store does not do it.
    pub async fn delete(&self, tenant_id: &str, session_id: Uuid, id: Uuid) -> Result<(), Error> {
        match self.objects.delete(&key::of(tenant_id, session_id, id)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(Error::internal(error)),
        }
    }
}

fn verified(
    mut chunks: BoxStream<'static, object_store::Result<Bytes>>,
    id: Uuid,
    sha256: String,
) -> impl Stream<Item = Result<Bytes, Error>> + Send {
    try_stream! {
        let mut hasher = Sha256::new();
        let mut kept = Bytes::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(Error::internal)?;
            hasher.update(&chunk);
            let before = std::mem::replace(&mut kept, chunk);
            if !before.is_empty() {
                yield before;
            }
        }
        if canonical::hex(&hasher.finalize()) != sha256 {
            Err(Error::internal(format!("the stored bytes of artifact {id} are not those that were written")))?;
        }
        if !kept.is_empty() {
            yield kept;
        }
    }
}
