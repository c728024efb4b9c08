//! What callers may do with sessions.

use std::sync::Arc;

use sqlx::PgPool;
use uuid::Uuid;

use crate::agents::Catalogue;
use crate::clock::Clock;
use crate::db;
use crate::error::{Conflict, Error, Resource};
use crate::idempotency::{self, IdempotencyKey, KeyTtl};
use crate::json_object;
use crate::principal::Principal;
use crate::scope::Scope;
use crate::sessions::command::CreateSession;
use crate::sessions::store::{self, NewSession};
use crate::sessions::view::SessionView;
use crate::task::shielded;

#[derive(Debug, Clone)]
pub struct SessionService {
    pool: PgPool,
    clock: Clock,
    agents: Arc<Catalogue>,
    key_ttl: KeyTtl,
}

/// A creation, or what a known key had created.
#[derive(Debug, Clone)]
pub struct Created {
    pub session: SessionView,
    pub replayed: bool,
}

impl SessionService {
    pub(crate) fn new(pool: PgPool, clock: Clock, agents: Arc<Catalogue>, key_ttl: KeyTtl) -> Self {
        Self { pool, clock, agents, key_ttl }
    }

    /// Begins a conversation with the current version of an agent, frozen from here on.
    ///
    /// # Errors
    /// `Malformed`; `NotFound` for an unknown agent; `Conflict` for a key used otherwise.
    pub async fn create(
        &self,
        principal: &Principal,
        key: Option<IdempotencyKey>,
        command: CreateSession,
    ) -> Result<Created, Error> {
        principal.require(Scope::SessionWrite)?;
        let metadata = json_object::metadata_text(&command.metadata).map_err(|problem| Error::Malformed(vec![problem]))?;
        let version = self.agents.current(&command.agent_id).ok_or(Error::NotFound(Resource::Agent))?.to_owned();
        let (service, principal) = (self.clone(), principal.clone());
        shielded(async move {
            let id = service.clock.new_id();
            let new = NewSession {
                id,
                agent_id: &command.agent_id,
                agent_version: &version,
                metadata: &metadata,
                key: key.as_ref(),
                key_ttl: service.key_ttl,
            };
            let created = match db::repeat_when_lost(|| store::create(&service.pool, &principal, &new)).await {
                Err(error) if store::is_repeat(&error) => true,
                answer => answer?,
            };
            if created {
                let session = store::find(&service.pool, &principal, id).await?.ok_or(Error::NotFound(Resource::Session))?;
                return Ok(Created { session, replayed: false });
            }
            service.replay(&principal, key.as_ref(), id).await
        })
        .await
    }

    /// # Errors
    /// `NotFound`.
    pub async fn get(&self, principal: &Principal, id: Uuid) -> Result<SessionView, Error> {
        principal.require(Scope::SessionRead)?;
        store::find(&self.pool, principal, id).await?.ok_or(Error::NotFound(Resource::Session))
    }

    /// A request for a session that is wrong in itself: `NotFound` comes before what is wrong.
    pub async fn missing_or(&self, principal: &Principal, id: Uuid, error: Error) -> Error {
        match store::owned_status(&self.pool, principal, id).await {
            Ok(Some(_)) => error,
            Ok(None) => Error::NotFound(Resource::Session),
            Err(unreadable) => unreadable,
        }
    }

    /// What the key had created. Our own identifier, where the answer to our own first try was lost.
    async fn replay(&self, principal: &Principal, key: Option<&IdempotencyKey>, id: Uuid) -> Result<Created, Error> {
        let key = key.ok_or_else(|| Error::internal("a session without a key was not created"))?;
        match idempotency::look_up(&self.pool, principal, key).await? {
            Some(idempotency::Created::Session(found)) => {
                let session = store::find(&self.pool, principal, found).await?.ok_or(Error::NotFound(Resource::Session))?;
                Ok(Created { session, replayed: found != id })
            }
            Some(idempotency::Created::Run(_)) => Err(Error::Conflict(Conflict::IdempotencyKeyReused)),
            None => Err(Error::ConcurrencyConflict), // removed by maintenance in this very moment
        }
    }
}
