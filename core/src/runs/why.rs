//! Why a run is not further, in words that an operator or a client can act on.

use serde::Serialize;
use sqlx::PgPool;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::closed_set::closed_set;
use crate::error::{Error, Resource};
use crate::principal::Principal;
use crate::runs::service::RunService;
use crate::runs::status::RunStatus;
use crate::scope::Scope;

closed_set! {
    Because {
        QueuedBehind = "queued_behind",
        TenantAtCapacity = "tenant_at_capacity",
        NoWorkerForClass = "no_worker_for_class",
        BackingOff = "backing_off",
        Executing = "executing",
        WaitingForApproval = "waiting_for_approval",
        WaitingForUser = "waiting_for_user",
        Cancelling = "cancelling",
        Finished = "finished",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WhyView {
    pub status: RunStatus,
    pub because: Because,
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// When it changes by itself, at the latest.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub until: Option<OffsetDateTime>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, min_items = 1)]
    pub approval_ids: Vec<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub question_id: Option<Uuid>,
    /// When the worker that executes it was heard of last.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub worker_seen_at: Option<OffsetDateTime>,
    /// What happens next, as a sentence.
    pub next: &'static str,
}

impl Because {
    const fn next(self) -> &'static str {
        match self {
            Self::QueuedBehind => "A worker takes it as soon as it has a free slot and has taken what came before.",
            Self::TenantAtCapacity => "It is taken when another run of the tenant has ended or waits.",
            Self::NoWorkerForClass => "Start a worker with slots for this priority: none is running.",
            Self::BackingOff => "It is due again at the time given, after its worker was lost or could not read its log.",
            Self::Executing => "A worker executes it; follow its events to see how far it is.",
            Self::WaitingForApproval => "Somebody has to approve or deny what it wants to do.",
            Self::WaitingForUser => "Its user has to answer its question.",
            Self::Cancelling => "It was asked to stop, and does when the call under way has ended.",
            Self::Finished => "Nothing: it has ended.",
        }
    }
}

/// What the answer is made of.
struct Row {
    status: String,
    status_since: OffsetDateTime,
    deadline_at: OffsetDateTime,
    scheduled_for: Option<OffsetDateTime>,
    cancel_requested: bool,
    worker_seen_at: Option<OffsetDateTime>,
    has_worker: bool,
    is_tenant_full: bool,
    approval_ids: Vec<Uuid>,
    approvals_until: Option<OffsetDateTime>,
    question_id: Option<Uuid>,
    question_until: Option<OffsetDateTime>,
}

impl RunService {
    /// # Errors
    /// `NotFound`.
    pub async fn why(&self, principal: &Principal, run_id: Uuid) -> Result<WhyView, Error> {
        principal.require(Scope::RunRead)?;
        let row = find(&self.pool, principal, run_id, self.tenant_max_running).await?;
        row.ok_or(Error::NotFound(Resource::Run))?.into_view()
    }
}

impl Row {
    fn into_view(self) -> Result<WhyView, Error> {
        let status: RunStatus = self.status.parse().map_err(Error::internal)?;
        let because = self.because(status);
        // Whatever else ends a wait, the deadline does.
        let until = match because {
            Because::Finished => None,
            Because::BackingOff => self.scheduled_for,
            _ => [self.approvals_until, self.question_until, Some(self.deadline_at)].into_iter().flatten().min(),
        };
        Ok(WhyView {
            status,
            because,
            since: self.status_since,
            until,
            approval_ids: self.approval_ids,
            question_id: self.question_id,
            worker_seen_at: self.worker_seen_at,
            next: because.next(),
        })
    }

    fn because(&self, status: RunStatus) -> Because {
        match status {
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => Because::Finished,
            RunStatus::WaitingForApproval => Because::WaitingForApproval,
            RunStatus::WaitingForUser => Because::WaitingForUser,
            _ if self.cancel_requested => Because::Cancelling,
            RunStatus::Running => Because::Executing,
            RunStatus::Queued if self.scheduled_for.is_some() => Because::BackingOff,
            RunStatus::Queued if !self.has_worker => Because::NoWorkerForClass,
            RunStatus::Queued if self.is_tenant_full => Because::TenantAtCapacity,
            RunStatus::Queued => Because::QueuedBehind,
        }
    }
}

async fn find(pool: &PgPool, principal: &Principal, id: Uuid, tenant_cap: Option<i32>) -> Result<Option<Row>, Error> {
    let row = sqlx::query_as!(
        Row,
        r#"
        SELECT r.status, r.status_since, r.deadline_at, r.scheduled_for, r.cancel_requested_at IS NOT NULL AS "cancel_requested!",
            (SELECT w.renewed_at FROM workers w WHERE w.id = r.lease_owner) AS worker_seen_at,
            EXISTS (SELECT 1 FROM workers w WHERE NOT w.dead AND w.expires_at > now() AND w.slots_shared + CASE r.priority
                WHEN 'INTERACTIVE' THEN w.slots_interactive WHEN 'ASYNC' THEN w.slots_async ELSE w.slots_maintenance END > 0) AS "has_worker!",
            -- Counted no further than the cap.
            $4::int4 IS NOT NULL AND (SELECT count(*) FROM (SELECT 1 FROM runs x WHERE x.status = 'RUNNING' AND x.tenant_id = r.tenant_id
                LIMIT greatest($4::int4, 0)) y) >= $4::int4 AS "is_tenant_full!",
            ARRAY(SELECT a.id FROM approvals a WHERE a.run_id = r.id AND a.status = 'PENDING' ORDER BY a.id) AS "approval_ids!",
            (SELECT min(a.expires_at) FROM approvals a WHERE a.run_id = r.id AND a.status = 'PENDING') AS approvals_until,
            (SELECT q.id FROM questions q WHERE q.run_id = r.id AND q.status = 'OPEN') AS question_id,
            (SELECT q.expires_at FROM questions q WHERE q.run_id = r.id AND q.status = 'OPEN') AS question_until
        FROM runs r
        WHERE r.id = $1 AND r.tenant_id = $2 AND ($3::text IS NULL OR r.principal_id = $3)
        "#,
        id,
        principal.tenant_id,
        principal.reads_owner(),
        tenant_cap,
    )
    .fetch_optional(pool)
    .await?;
    Ok(row)
}
