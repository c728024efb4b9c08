//! What callers may do with runs.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::agents::Versions;
use crate::clock::Clock;
use crate::error::{Cap, Conflict, Error, Resource};
use crate::events::follow::Follow;
use crate::events::{EventPage, Followed, log};
use crate::execution::settle::{self, CancelOutcome};
use crate::fault::{Faults, Point};
use crate::idempotency::{self, Created, IdempotencyKey, KeyTtl};
use crate::models::Policies;
use crate::notify::{Hint, Notifier};
use crate::page::{Cursor, Page, PageRequest, page};
use crate::principal::Principal;
use crate::runs::backlog::Backlog;
use crate::runs::command::{SubmitMessage, Submitted};
use crate::runs::status::RunStatus;
use crate::runs::store::{self, Extent, Unfinished};
use crate::runs::submission::{NewRun, Submission};
use crate::runs::submissions::Submissions;
use crate::runs::view::RunView;
use crate::runs::wait::Until;
use crate::scope::Scope;
use crate::sessions::{self, SessionStatus};
use crate::task::shielded;

#[derive(Debug, Clone)]
pub struct RunService {
    pub(crate) pool: PgPool,
    pub(crate) clock: Clock,
    pub(crate) notifier: Notifier,
    pub(crate) submissions: Submissions,
    pub(crate) follow: Follow,
    pub(crate) versions: Versions,
    pub(crate) policies: Policies,
    pub(crate) key_ttl: KeyTtl,
    /// Whether a message for a run that waits for its user is the answer.
    pub(crate) route_input: bool,
    pub(crate) backlog: Backlog,
    /// Of `tenant.max_running`, as workers heed it.
    pub(crate) tenant_max_running: Option<i32>,
    pub(crate) faults: Faults,
}

/// Which runs a list shows.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub session_id: Option<Uuid>,
    /// Any of these; none: all.
    pub statuses: Vec<RunStatus>,
    /// Neither includes its moment.
    pub created_after: Option<OffsetDateTime>,
    pub created_before: Option<OffsetDateTime>,
}

/// Submissions again after the session's run had moved on between "busy" and the look at it, or the answer to it. Each round
/// somebody's run did.
const BUSY_TRIES_MAX: u32 = 3;

impl RunService {
    /// Stores a run for a message before it answers. Where the session's run waits for its user, the message is the answer to
    /// its question: then that run is returned, with the limits, priority and metadata that it has; the message's mean nothing.
    ///
    /// # Errors
    /// `NotFound` for the session, `Malformed`, `Conflict` (a run is unfinished, the session is closed, the key was used
    /// otherwise), `RateLimited`. A failed submission keeps no key.
    pub async fn submit(
        &self,
        principal: &Principal,
        session_id: Uuid,
        key: Option<IdempotencyKey>,
        command: SubmitMessage,
    ) -> Result<Submitted, Error> {
        principal.require(Scope::RunWrite)?;
        let metadata = match command.validate() {
            Ok(metadata) => metadata,
            Err(malformed) => return Err(self.session_missing_or(principal, session_id, malformed).await),
        };
        let service = self.clone();
        let principal = principal.clone();
        let new = NewRun { id: self.clock.new_id(), session_id, principal, command, metadata, key, key_ttl: self.key_ttl };
        shielded(async move {
            let submitted = service.submit_new(Arc::new(new)).await?;
            service.faults.hit(Point::AfterSubmit).await?;
            Ok(submitted)
        })
        .await
    }

    async fn submit_new(&self, new: Arc<NewRun>) -> Result<Submitted, Error> {
        let principal = &new.principal;
        if self.backlog_is_full(&new).await? {
            return match self.replay(&new).await? {
                Some(replayed) => Ok(replayed),
                None => Err(self.session_missing_or(principal, new.session_id, Error::RateLimited(Cap::QueuedRuns)).await),
            };
        }
        if !self.cost_is_known(&new).await? {
            let unpriced = Error::malformed("/limits/max_cost_usd", "the model of this session's agent has no price");
            return self.replay(&new).await?.ok_or(unpriced);
        }
        let created = Submitted { run_id: new.id, session_id: new.session_id, status: RunStatus::Queued, replayed: false };
        for _ in 0..BUSY_TRIES_MAX {
            match self.submissions.store(&new).await? {
                Submission::Created { last_sequence } => {
                    self.backlog.count(&principal.tenant_id);
                    self.notifier.send([Hint::Queue, Hint::Events { session_id: new.session_id, sequence: last_sequence }]);
                    return Ok(created);
                }
                Submission::Repeat => {
                    self.notifier.send([Hint::Queue]);
                    return Ok(created);
                }
                Submission::KeyExists => return self.replay(&new).await?.ok_or(Error::ConcurrencyConflict),
                // A repeat of a known key is answered before whatever stands in the way of a new run.
                Submission::NoSession => {
                    return match self.replay(&new).await? {
                        Some(replayed) => Ok(replayed),
                        None => Err(self
                            .session_missing_or(principal, new.session_id, Error::Conflict(Conflict::SessionClosed))
                            .await),
                    };
                }
                Submission::Busy => {
                    let Some(unfinished) = store::unfinished(&self.pool, principal, new.session_id).await? else { continue };
                    if let Some(replayed) = self.replay(&new).await? {
                        return Ok(replayed);
                    }
                    let Unfinished { run_id, status, question_id } = unfinished;
                    match question_id.filter(|_| self.route_input) {
                        Some(question_id) => {
                            if let Some(submitted) = self.route(&new, run_id, question_id).await? {
                                return Ok(submitted);
                            }
                        }
                        None => return Err(Error::Conflict(Conflict::ActiveRun { run_id, status })),
                    }
                }
            }
        }
        Err(Error::ConcurrencyConflict)
    }

    /// Whether a limit of cost can be kept, where one is wished for: only those who wish for one wait for the look at the session.
    async fn cost_is_known(&self, new: &NewRun) -> Result<bool, Error> {
        if new.command.limits.max_cost_usd.is_none() {
            return Ok(true);
        }
        // A session that is not there is somebody else's to tell.
        let Some((agent_id, version)) = sessions::store::agent_of(&self.pool, &new.principal, new.session_id).await? else {
            return Ok(true);
        };
        let agent = self.versions.get(&agent_id, &version).await?;
        Ok(self.policies.is_priced(&agent.model))
    }

    /// What the key had created, as it is now. None: there is no key, or nothing under it.
    pub(super) async fn replay(&self, new: &NewRun) -> Result<Option<Submitted>, Error> {
        let Some(key) = &new.key else { return Ok(None) };
        match idempotency::look_up(&self.pool, &new.principal, key).await? {
            None => Ok(None),
            Some(Created::Session(_)) => Err(Error::Conflict(Conflict::IdempotencyKeyReused)),
            Some(Created::Run(run_id)) => {
                let (session_id, status) =
                    store::status(&self.pool, &new.principal, run_id).await?.ok_or(Error::NotFound(Resource::Run))?;
                // Our own identifier: the answer to our own first try was lost.
                Ok(Some(Submitted { run_id, session_id, status, replayed: run_id != new.id }))
            }
        }
    }

    pub(super) async fn session_missing_or(&self, principal: &Principal, session_id: Uuid, error: Error) -> Error {
        match sessions::store::owned_status(&self.pool, principal, session_id).await {
            Ok(None) => Error::NotFound(Resource::Session),
            Ok(Some(SessionStatus::Active)) if matches!(error, Error::Conflict(Conflict::SessionClosed)) => {
                Error::ConcurrencyConflict
            }
            Ok(Some(_)) => error,
            Err(unreadable) => unreadable,
        }
    }

    /// # Errors
    /// `NotFound`.
    pub async fn get(&self, principal: &Principal, run_id: Uuid) -> Result<RunView, Error> {
        principal.require(Scope::RunRead)?;
        self.view(principal, run_id).await
    }

    /// A request to read a run that is wrong in itself: `NotFound` comes before what is wrong.
    pub async fn unreadable_or(&self, principal: &Principal, run_id: Uuid, error: Error) -> Error {
        match self.view(principal, run_id).await {
            Ok(_) => error,
            Err(missing) => missing,
        }
    }

    /// Newest first.
    ///
    /// # Errors
    /// The database's.
    pub async fn list(&self, principal: &Principal, filter: &RunFilter, request: &PageRequest) -> Result<Page<RunView>, Error> {
        principal.require(Scope::RunRead)?;
        let runs = store::list(&self.pool, principal, filter, request).await?;
        Ok(page(runs, request.limit(), |run| Cursor { created_at: run.created_at, id: run.id }))
    }

    /// Asks the run to stop, and holds the answer for so long, or until it has ended; the view shows how far that has come.
    /// Repeats are safe.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn cancel(&self, principal: &Principal, run_id: Uuid, within: Duration) -> Result<RunView, Error> {
        principal.require(Scope::RunCancel)?;
        let requested = self.request_cancel(principal, run_id).await?;
        if requested.status.is_terminal() || within.is_zero() {
            return Ok(requested);
        }
        self.wait_until(principal, run_id, Until::Ended, within).await
    }

    async fn request_cancel(&self, principal: &Principal, run_id: Uuid) -> Result<RunView, Error> {
        let (service, principal) = (self.clone(), principal.clone());
        shielded(async move {
            let outcome = settle::cancel(&service.pool, &principal, run_id).await?.ok_or(Error::NotFound(Resource::Run))?;
            let view = service.view(&principal, run_id).await?;
            if matches!(outcome, CancelOutcome::Requested | CancelOutcome::Repeated) {
                service.notifier.send([Hint::Cancel { run_id }, Hint::Queue]);
            }
            if matches!(outcome, CancelOutcome::Requested | CancelOutcome::Cancelled) {
                service.notifier.send([Hint::Events { session_id: view.session_id, sequence: i64::MAX }]);
            }
            Ok(view)
        })
        .await
    }

    /// The run's events after a cursor, to its end; live where the run goes on. Disconnecting cancels nothing.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for a cursor beyond the log. Every check that can fail is made before the first frame.
    pub async fn follow(&self, principal: &Principal, run_id: Uuid, cursor: Option<i64>) -> Result<Followed, Error> {
        principal.require(Scope::RunRead)?;
        self.follow.ready().await;
        let extent = self.extent(principal, run_id, cursor).await?;
        let cursor = cursor.unwrap_or(0).max(extent.first_sequence - 1);
        if extent.last_sequence.is_some_and(|last| cursor >= last) {
            return Ok(Followed::NothingMissing);
        }
        Ok(Followed::Stream(self.follow.run(extent.session_id, run_id, extent.head, cursor)))
    }

    /// A page of the run's events after a sequence, as they are now.
    ///
    /// # Errors
    /// As [`Self::follow`].
    pub async fn events(&self, principal: &Principal, run_id: Uuid, after: Option<i64>, limit: i64) -> Result<EventPage, Error> {
        principal.require(Scope::RunRead)?;
        let extent = self.extent(principal, run_id, after).await?;
        let last = extent.last_sequence.unwrap_or(i64::MAX);
        let after = after.unwrap_or(0).max(extent.first_sequence - 1);
        if after >= last {
            return Ok(EventPage::EMPTY);
        }
        let page = log::read_after(&self.pool, extent.session_id, after, limit).await?;
        EventPage::of(&page, extent.session_id, Some(run_id), last)
    }

    pub(super) async fn extent(&self, principal: &Principal, run_id: Uuid, cursor: Option<i64>) -> Result<Extent, Error> {
        let extent = store::extent(&self.pool, principal, run_id).await?.ok_or(Error::NotFound(Resource::Run))?;
        if cursor.is_some_and(|cursor| cursor > extent.head) {
            return Err(Error::Conflict(Conflict::CursorAhead { head: extent.head }));
        }
        Ok(extent)
    }
}
