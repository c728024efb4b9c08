//! What callers may do with sessions.

use std::sync::Arc;

use sqlx::PgPool;
use uuid::Uuid;

use crate::agents::Catalogue;
use crate::clock::Clock;
use crate::db;
use crate::error::{Conflict, Error, Resource};
use crate::events::follow::Follow;
use crate::events::{EventPage, Followed, log};
use crate::idempotency::{self, IdempotencyKey, KeyTtl};
use crate::json_object;
use crate::notify::{Hint, Notifier};
use crate::page::{Cursor, Page, PageRequest, SequenceCursor, page};
use crate::principal::Principal;
use crate::scope::Scope;
use crate::sessions::command::CreateSession;
use crate::sessions::delete::Doomed;
use crate::sessions::store::{self, Extent, NewSession};
use crate::sessions::transcript::{self, TranscriptItem};
use crate::sessions::view::SessionView;
use crate::sessions::{close, delete};
use crate::task::shielded;

#[derive(Debug, Clone)]
pub struct SessionService {
    pub(crate) pool: PgPool,
    pub(crate) clock: Clock,
    pub(crate) notifier: Notifier,
    pub(crate) follow: Follow,
    pub(crate) agents: Arc<Catalogue>,
    pub(crate) key_ttl: KeyTtl,
}

/// A creation, or what a known key had created.
#[derive(Debug, Clone)]
pub struct Created {
    pub session: SessionView,
    pub replayed: bool,
}

impl SessionService {
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

    /// Newest first: the caller's own, or with `operator.read` the tenant's.
    ///
    /// # Errors
    /// The database's.
    pub async fn list(&self, principal: &Principal, request: &PageRequest) -> Result<Page<SessionView>, Error> {
        principal.require(Scope::SessionRead)?;
        let sessions = store::list(&self.pool, principal, request).await?;
        Ok(page(sessions, request.limit(), |session| Cursor { created_at: session.created_at, id: session.id }))
    }

    /// Takes no more messages from here on. Closed before is closed.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` while a run is unfinished.
    pub async fn close(&self, principal: &Principal, id: Uuid) -> Result<SessionView, Error> {
        principal.require(Scope::SessionWrite)?;
        let (service, principal) = (self.clone(), principal.clone());
        shielded(async move {
            let closed = close::close(&service.pool, &principal, id).await?;
            let sequence = closed.ok_or(Error::NotFound(Resource::Session))?;
            // Said again where it was closed before: perhaps by us, and the answer was lost.
            service.notifier.send([Hint::Events { session_id: id, sequence }]);
            store::find(&service.pool, &principal, id).await?.ok_or(Error::NotFound(Resource::Session))
        })
        .await
    }

    /// Deletes every row of the session; the bytes of its artifacts go soon after. Streams of it end.
    ///
    /// # Errors
    /// `NotFound`, once it is gone, too; `Conflict` while a run is unfinished.
    pub async fn delete(&self, principal: &Principal, id: Uuid) -> Result<(), Error> {
        principal.require(Scope::SessionWrite)?;
        let (pool, principal) = (self.pool.clone(), principal.clone());
        shielded(async move {
            let Principal { tenant_id, principal_id, .. } = &principal;
            let doomed = Doomed { id, tenant_id, principal_id, idle_days: None };
            if delete::delete(&pool, doomed).await? { Ok(()) } else { Err(Error::NotFound(Resource::Session)) }
        })
        .await
    }

    /// What was said in the session, in order.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn messages(
        &self,
        principal: &Principal,
        id: Uuid,
        request: &PageRequest<SequenceCursor>,
    ) -> Result<Page<TranscriptItem>, Error> {
        principal.require(Scope::SessionRead)?;
        let page = transcript::read(&self.pool, principal, id, request).await?;
        if page.items.is_empty() {
            store::extent(&self.pool, principal, id).await?.ok_or(Error::NotFound(Resource::Session))?;
        }
        Ok(page)
    }

    /// All events of the session after a cursor, those of its runs and its own, until it is closed. Cursors are those of its
    /// runs' streams.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for a cursor beyond the log. Every check that can fail is made before the first frame.
    pub async fn follow(&self, principal: &Principal, id: Uuid, cursor: Option<i64>) -> Result<Followed, Error> {
        principal.require(Scope::RunRead)?;
        self.follow.ready().await;
        let cursor = cursor.unwrap_or(0);
        let extent = self.extent(principal, id, cursor).await?;
        if extent.is_closed && cursor == extent.head {
            return Ok(Followed::NothingMissing);
        }
        Ok(Followed::Stream(self.follow.session(id, extent.head, cursor)))
    }

    /// A page of the session's events after a sequence, as they are now.
    ///
    /// # Errors
    /// As [`Self::follow`].
    pub async fn events(&self, principal: &Principal, id: Uuid, after: Option<i64>, limit: i64) -> Result<EventPage, Error> {
        principal.require(Scope::RunRead)?;
        let after = after.unwrap_or(0);
        self.extent(principal, id, after).await?;
        EventPage::of(&log::read_after(&self.pool, id, after, limit).await?, id, None, i64::MAX)
    }

    async fn extent(&self, principal: &Principal, id: Uuid, cursor: i64) -> Result<Extent, Error> {
        let extent = store::extent(&self.pool, principal, id).await?.ok_or(Error::NotFound(Resource::Session))?;
        if cursor > extent.head {
            return Err(Error::Conflict(Conflict::CursorAhead { head: extent.head }));
        }
        Ok(extent)
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
