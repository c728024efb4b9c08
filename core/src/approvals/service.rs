//! What callers may do with approvals: the whole tenant's, whoever owns the run.

use sqlx::PgPool;
use uuid::Uuid;

use crate::approvals::command::{ResolveApproval, Verdict};
use crate::approvals::store::{self, Resolved, Stored};
use crate::approvals::view::{ApprovalStatus, ApprovalView};
use crate::db;
use crate::error::{Conflict, Error, Resource};
use crate::events::Decision;
use crate::fault::{Faults, Point};
use crate::notify::{Hint, Notifier};
use crate::page::{Cursor, Page, PageRequest, page};
use crate::principal::Principal;
use crate::runs::RunStatus;
use crate::scope::Scope;
use crate::task::shielded;

#[derive(Debug, Clone)]
pub struct ApprovalService {
    pub(crate) pool: PgPool,
    pub(crate) notifier: Notifier,
    pub(crate) faults: Faults,
}

/// Which approvals a list shows.
#[derive(Debug, Clone, Default)]
pub struct ApprovalFilter {
    /// Any of these; none: all.
    pub statuses: Vec<ApprovalStatus>,
    pub run_id: Option<Uuid>,
    pub session_id: Option<Uuid>,
}

/// Decisions again, of an approval that was found open after it could not be resolved.
const OPEN_TRIES_MAX: u32 = 10;

impl ApprovalService {
    /// Newest first.
    ///
    /// # Errors
    /// The database's.
    pub async fn list(
        &self,
        principal: &Principal,
        filter: &ApprovalFilter,
        request: &PageRequest,
    ) -> Result<Page<ApprovalView>, Error> {
        principal.require(Scope::ApprovalRead)?;
        let approvals = match filter.statuses[..] {
            [ApprovalStatus::Pending] => store::inbox(&self.pool, principal, filter, request).await?,
            _ => store::list(&self.pool, principal, filter, request).await?,
        };
        Ok(page(approvals, request.limit(), |approval| Cursor { created_at: approval.created_at, id: approval.id }))
    }

    /// # Errors
    /// `NotFound`.
    pub async fn get(&self, principal: &Principal, id: Uuid) -> Result<ApprovalView, Error> {
        principal.require(Scope::ApprovalRead)?;
        Ok(self.stored(principal, id).await?.view)
    }

    /// Decides, in the caller's name. The first decision stands; the same one again is a success. The last one that a run
    /// waits for sends it back to the queue.
    ///
    /// # Errors
    /// `NotFound`; `Malformed`; `SelfApproval`; `Conflict` where the other decision stands; `ApprovalClosed` where nobody may
    /// decide any more.
    pub async fn resolve(&self, principal: &Principal, id: Uuid, command: ResolveApproval) -> Result<ApprovalView, Error> {
        principal.require(Scope::ApprovalResolve)?;
        if let Err(malformed) = command.validate() {
            return Err(self.missing_or(principal, id, malformed).await);
        }
        let (service, principal) = (self.clone(), principal.clone());
        shielded(async move {
            for _ in 0..OPEN_TRIES_MAX {
                if let Some(resolved) = db::repeat_when_lost(|| store::resolve(&service.pool, &principal, id, &command)).await? {
                    service.faults.hit(Point::AfterResolve).await?;
                    service.wake(&resolved);
                    return Ok(service.stored(&principal, id).await?.view);
                }
                // In a statement of its own: what stood in the way may be newer than the snapshot of the one before.
                let stored = service.stored(&principal, id).await?;
                match judge(&stored, &principal.principal_id, command.decision)? {
                    Standing::Decided => {
                        // Perhaps by us, and the answer was lost: then nobody has been woken.
                        let session_id = stored.view.session_id;
                        service.notifier.send([Hint::Queue, Hint::Events { session_id, sequence: i64::MAX }]);
                        return Ok(stored.view);
                    }
                    Standing::Open => {}
                }
            }
            Err(Error::ConcurrencyConflict)
        })
        .await
    }

    /// A request for an approval that is wrong in itself: `NotFound` comes before what is wrong.
    pub async fn missing_or(&self, principal: &Principal, id: Uuid, error: Error) -> Error {
        match self.stored(principal, id).await {
            Ok(_) => error,
            Err(missing) => missing,
        }
    }

    async fn stored(&self, principal: &Principal, id: Uuid) -> Result<Stored, Error> {
        store::find(&self.pool, principal, id).await?.ok_or(Error::NotFound(Resource::Approval))
    }

    fn wake(&self, resolved: &Resolved) {
        if resolved.run_status == RunStatus::Queued.as_str() {
            self.notifier.send([Hint::Queue]);
        }
        self.notifier.send([Hint::Events { session_id: resolved.session_id, sequence: resolved.sequence }]);
    }
}

/// Why an approval could not be resolved, where that is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// As the caller wants it.
    Decided,
    Open,
}

fn judge(stored: &Stored, principal_id: &str, verdict: Verdict) -> Result<Standing, Error> {
    let approval = &stored.view;
    match approval.status {
        status if status == verdict.status() => Ok(Standing::Decided),
        ApprovalStatus::Approved => Err(already(approval.id, Decision::ApproveOnce)),
        ApprovalStatus::Denied => Err(already(approval.id, Decision::Deny)),
        ApprovalStatus::Expired | ApprovalStatus::Cancelled => Err(Error::ApprovalClosed(approval.status)),
        // Maintenance has not come by yet; nobody may answer any more all the same.
        ApprovalStatus::Pending if stored.is_due => Err(Error::ApprovalClosed(ApprovalStatus::Expired)),
        ApprovalStatus::Pending if verdict == Verdict::ApproveOnce && stored.is_barred(principal_id) => Err(Error::SelfApproval),
        ApprovalStatus::Pending => Ok(Standing::Open),
    }
}

fn already(approval_id: Uuid, decision: Decision) -> Error {
    Error::Conflict(Conflict::ApprovalAlreadyResolved { approval_id, decision })
}

#[cfg(test)]
mod tests;
