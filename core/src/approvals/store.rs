//! The rows of approvals, each with the call that it is for.

use serde_json::value::RawValue;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::approvals::command::ResolveApproval;
use crate::approvals::service::ApprovalFilter;
use crate::approvals::view::{ApprovalStatus, ApprovalView};
use crate::error::Error;
use crate::events::{ApprovalResolved, Event};
use crate::page::PageRequest;
use crate::principal::Principal;

/// What a decision did.
pub(super) struct Resolved {
    pub(super) session_id: Uuid,
    /// Of the run: QUEUED after the last decision that it waited for.
    pub(super) run_status: String,
    /// Of the event.
    pub(super) sequence: i64,
}

/// The decision, its event, and after the last one the run's way back to the queue: all or nothing, in one statement. None:
/// it is missing, decided, past its time, or not this principal's to approve; read which in a new statement.
pub(super) async fn resolve(
    pool: &PgPool,
    principal: &Principal,
    id: Uuid,
    command: &ResolveApproval,
) -> Result<Option<Resolved>, sqlx::Error> {
    let event = Event::ApprovalResolved(ApprovalResolved {
        approval_id: id,
        decision: command.decision.into(),
        resolved_by: Some(principal.principal_id.clone()),
    });
    sqlx::query_as!(
        Resolved,
        r#"
        WITH run AS MATERIALIZED (
            -- The run before what hangs on it, everywhere: approve, expire and cancel meet here, and one of them wins.
            SELECT r.id, r.session_id FROM runs r
            WHERE r.id = (SELECT a.run_id FROM approvals a WHERE a.id = $1::uuid AND a.tenant_id = $2::text)
              AND r.tenant_id = $2::text AND r.status = 'WAITING_FOR_APPROVAL'
            FOR NO KEY UPDATE
        ), app AS (
            UPDATE approvals a SET status = $3::text, resolved_by = $4::text, reason = $5::text, resolved_at = now()
            FROM run WHERE a.id = $1::uuid AND a.run_id = run.id AND a.status = 'PENDING'
              -- Past its time it is refused here, whether or not maintenance has come by.
              AND a.expires_at > now()
              AND NOT ($3::text = 'APPROVED' AND a.distinct_approver AND a.requested_by = $4::text)
            RETURNING a.id, run.id AS run_id, run.session_id
        ), num AS (
            UPDATE sessions s SET last_sequence = s.last_sequence + 1 FROM app WHERE s.id = app.session_id
            RETURNING app.run_id, app.session_id, s.last_sequence
        ), upd AS (
            -- Counted, not looked up: two last decisions at once would each see the other's approval pending. All columns come
            -- from r, because they share CHECKs, which are first tried on the snapshot's version of the row.
            UPDATE runs r SET pending_approvals = r.pending_approvals - 1, updated_at = now(),
                status = CASE WHEN r.pending_approvals = 1 THEN 'QUEUED' ELSE r.status END,
                resume_after = CASE WHEN r.pending_approvals = 1 THEN 'approval' END,
                status_since = CASE WHEN r.pending_approvals = 1 THEN now() ELSE r.status_since END
            FROM num WHERE r.id = num.run_id
            RETURNING r.id AS run_id, r.status, num.session_id, num.last_sequence
        ), ev AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT u.session_id, u.last_sequence, u.run_id, 'approval.resolved', 1, $6::text FROM upd u
        )
        SELECT upd.session_id, upd.status AS run_status, upd.last_sequence AS sequence FROM upd
        "#,
        id,
        principal.tenant_id,
        command.decision.status().as_str(),
        principal.principal_id,
        command.reason.as_deref(),
        event.body(),
    )
    .fetch_optional(pool)
    .await
}

/// An approval, with what decides who may still resolve it.
pub(super) struct Stored {
    pub(super) view: ApprovalView,
    /// Past its time, by the database's clock.
    pub(super) is_due: bool,
    pub(super) requested_by: String,
    pub(super) distinct_approver: bool,
}

impl Stored {
    /// Whether this principal must leave the approval to somebody else.
    pub(super) fn is_barred(&self, principal_id: &str) -> bool {
        self.distinct_approver && self.requested_by == principal_id
    }
}

pub(super) async fn find(pool: &PgPool, principal: &Principal, id: Uuid) -> Result<Option<Stored>, Error> {
    let row = sqlx::query_as!(
        Row,
        r#"
        SELECT a.id, a.run_id, a.session_id, a.status, i.tool_name, a.action_summary, i.arguments, a.risk, a.policy_reason,
            a.expires_at, a.created_at, a.resolved_at, a.resolved_by,
            a.expires_at <= now() AS "is_due!", a.requested_by, a.distinct_approver
        FROM approvals a JOIN tool_invocations i ON i.id = a.invocation_id
        WHERE a.id = $1 AND a.tenant_id = $2
        "#,
        id,
        principal.tenant_id,
    )
    .fetch_optional(pool)
    .await?;
    row.map(Row::into_stored).transpose()
}

/// Newest first; one row more than the page, where there is one.
pub(super) async fn list(
    pool: &PgPool,
    principal: &Principal,
    filter: &ApprovalFilter,
    page: &PageRequest,
) -> Result<Vec<ApprovalView>, Error> {
    let statuses: Vec<String> = filter.statuses.iter().map(ToString::to_string).collect();
    let rows = sqlx::query_as!(
        Row,
        r#"
        SELECT a.id, a.run_id, a.session_id, a.status, i.tool_name, a.action_summary, i.arguments, a.risk, a.policy_reason,
            a.expires_at, a.created_at, a.resolved_at, a.resolved_by,
            a.expires_at <= now() AS "is_due!", a.requested_by, a.distinct_approver
        FROM approvals a JOIN tool_invocations i ON i.id = a.invocation_id
        WHERE a.tenant_id = $1
          AND (cardinality($2::text[]) = 0 OR a.status = ANY($2))
          AND ($3::uuid IS NULL OR a.run_id = $3)
          AND ($4::uuid IS NULL OR a.session_id = $4)
          AND ($5::timestamptz IS NULL OR (a.created_at, a.id) < ($5, $6::uuid))
        ORDER BY a.created_at DESC, a.id DESC
        LIMIT $7
        "#,
        principal.tenant_id,
        &statuses,
        filter.run_id,
        filter.session_id,
        page.cursor.map(|cursor| cursor.created_at),
        page.cursor.map(|cursor| cursor.id),
        page.limit() + 1,
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(|row| Ok(row.into_stored()?.view)).collect()
}

/// The same of PENDING ones. The status is a literal, so that the index of the inbox serves it however the statement is
/// planned: what is pending is little, what was decided grows for ever.
pub(super) async fn inbox(
    pool: &PgPool,
    principal: &Principal,
    filter: &ApprovalFilter,
    page: &PageRequest,
) -> Result<Vec<ApprovalView>, Error> {
    let rows = sqlx::query_as!(
        Row,
        r#"
        SELECT a.id, a.run_id, a.session_id, a.status, i.tool_name, a.action_summary, i.arguments, a.risk, a.policy_reason,
            a.expires_at, a.created_at, a.resolved_at, a.resolved_by,
            a.expires_at <= now() AS "is_due!", a.requested_by, a.distinct_approver
        FROM approvals a JOIN tool_invocations i ON i.id = a.invocation_id
        WHERE a.tenant_id = $1 AND a.status = 'PENDING'
          AND ($2::uuid IS NULL OR a.run_id = $2)
          AND ($3::uuid IS NULL OR a.session_id = $3)
          AND ($4::timestamptz IS NULL OR (a.created_at, a.id) < ($4, $5::uuid))
        ORDER BY a.created_at DESC, a.id DESC
        LIMIT $6
        "#,
        principal.tenant_id,
        filter.run_id,
        filter.session_id,
        page.cursor.map(|cursor| cursor.created_at),
        page.cursor.map(|cursor| cursor.id),
        page.limit() + 1,
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(|row| Ok(row.into_stored()?.view)).collect()
}

struct Row {
    id: Uuid,
    run_id: Uuid,
    session_id: Uuid,
    status: String,
    tool_name: String,
    action_summary: String,
    arguments: String,
    risk: String,
    policy_reason: String,
    expires_at: OffsetDateTime,
    created_at: OffsetDateTime,
    resolved_at: Option<OffsetDateTime>,
    resolved_by: Option<String>,
    is_due: bool,
    requested_by: String,
    distinct_approver: bool,
}

impl Row {
    fn into_stored(self) -> Result<Stored, Error> {
        let status: ApprovalStatus = self.status.parse().map_err(Error::internal)?;
        let view = ApprovalView {
            id: self.id,
            run_id: self.run_id,
            session_id: self.session_id,
            status,
            tool_name: self.tool_name,
            action_summary: self.action_summary,
            arguments: RawValue::from_string(self.arguments).map_err(Error::internal)?,
            risk: self.risk.parse().map_err(Error::internal)?,
            policy_reason: self.policy_reason,
            expires_at: self.expires_at,
            created_at: self.created_at,
            resolved_at: self.resolved_at,
            resolved_by: self.resolved_by,
            decision: status.decision(),
        };
        Ok(Stored { view, is_due: self.is_due, requested_by: self.requested_by, distinct_approver: self.distinct_approver })
    }
}
