//! What callers may do with artifacts: those of their own sessions, or with `operator.read` the tenant's.

use bytes::Bytes;
use futures::stream::BoxStream;
use sqlx::PgPool;
use uuid::Uuid;

use crate::artifacts::objects::ArtifactStore;
use crate::artifacts::store;
use crate::artifacts::view::ArtifactView;
use crate::clock::Clock;
use crate::config;
use crate::error::{Error, Resource};
use crate::principal::Principal;
use crate::scope::Scope;

#[derive(Debug, Clone)]
pub struct ArtifactService {
    pub(crate) pool: PgPool,
    pub(crate) clock: Clock,
    pub(crate) config: config::Artifacts,
}

/// The bytes of an artifact, on their way. Bytes that are not those that were written end early, with an error.
pub type ArtifactBytes = BoxStream<'static, Result<Bytes, Error>>;

impl ArtifactService {
    /// # Errors
    /// `NotFound`.
    pub async fn get(&self, principal: &Principal, id: Uuid) -> Result<ArtifactView, Error> {
        principal.require(Scope::ArtifactRead)?;
        store::find(&self.pool, principal, id).await?.ok_or(Error::NotFound(Resource::Artifact))
    }

    /// A handle on the bytes, not the bytes. The store is opened for each: two calls of the system, and nobody who does not
    /// read artifacts needs one.
    ///
    /// # Errors
    /// `NotFound`; `ArtifactStorage` where the store does not have them.
    pub async fn open(&self, principal: &Principal, id: Uuid) -> Result<ArtifactBytes, Error> {
        let artifact = self.get(principal, id).await?;
        let store = ArtifactStore::open(&self.config, self.clock.clone())
            .map_err(|error| Error::ArtifactStorage { id, source: Box::new(error) })?;
        store.read(&principal.tenant_id, artifact.session_id, id, &artifact.sha256).await
    }
}
