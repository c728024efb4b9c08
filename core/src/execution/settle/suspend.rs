//! Letting a run wait for a person: the rows of its calls, what is asked, the events, the status and the release of the lease
//! in one statement. Nothing can be answered before the run waits, and a run never waits for what cannot be answered.

use std::time::Duration;

use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::events::Event;
use crate::execution::settle::append::{EventRow, Fence};
use crate::execution::settle::rows::CallColumns;
use crate::execution::state::Totals;
use crate::runs::RunStatus;
use crate::tools::CallRows;

/// An event as it is stored, but for the time at which what it asks expires.
#[derive(Debug)]
pub(in crate::execution) struct AskingEvent {
    pub(in crate::execution) row: EventRow,
    /// The member of the body that the database's time replaces, and for how long from now it may be answered.
    pub(in crate::execution) expiry: Option<(String, Duration)>,
}

/// What one run asks, and writes as it lets go.
#[derive(Debug)]
pub(in crate::execution) struct SuspendRow {
    pub(in crate::execution) fence: Fence,
    pub(in crate::execution) totals: Totals,
    pub(in crate::execution) events: Vec<AskingEvent>,
    pub(in crate::execution) calls: CallRows,
    pub(in crate::execution) asks: Asks,
}

/// What a run waits for. When that expires is the database's to say: the statement writes it into rows and bodies alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asks {
    Approvals(Vec<NewApproval>),
    Question(NewQuestion),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApproval {
    pub id: Uuid,
    pub invocation_id: Uuid,
    pub risk: String,
    pub ttl: Duration,
    pub action_summary: String,
    pub policy_reason: String,
    pub policy_version: String,
    pub distinct_approver: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewQuestion {
    pub id: Uuid,
    pub invocation_id: Uuid,
    pub question: String,
    /// A JSON list.
    pub choices: Option<String>,
    pub ttl: Duration,
}

/// What became of a suspension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::execution) enum Suspended {
    /// It waits; the sequence of its last event.
    Waiting { last_sequence: i64 },
    /// A request to cancel stands: nothing was written, since nobody would ever read the request of a run that waits.
    CancelRequested,
}

impl Asks {
    const fn status(&self) -> RunStatus {
        match self {
            Self::Approvals(_) => RunStatus::WaitingForApproval,
            Self::Question(_) => RunStatus::WaitingForUser,
        }
    }

    /// How long the one that this event asks may be answered, and the worker's estimate of its end.
    pub(in crate::execution) fn expiry_of(&self, event: &Event) -> Option<(OffsetDateTime, Duration)> {
        match (self, event) {
            (Self::Approvals(approvals), Event::ApprovalRequested(asked)) => {
                let approval = approvals.iter().find(|approval| approval.id == asked.approval_id)?;
                Some((asked.expires_at, approval.ttl))
            }
            (Self::Question(question), Event::RunWaitingForUser(asked)) => Some((asked.expires_at, question.ttl)),
            _ => None,
        }
    }
}

/// One run lets go of its worker and waits. `None`: fenced, or written before.
pub(in crate::execution) async fn suspend(pool: &PgPool, row: &SuspendRow) -> Result<Option<Suspended>, sqlx::Error> {
    let mut calls = CallColumns::default();
    calls.push(row.fence.run_id, &row.calls);
    let events = EventColumns::of(&row.events);
    let approvals = ApprovalColumns::of(&row.asks);
    let question = match &row.asks {
        Asks::Question(question) => Some(question),
        Asks::Approvals(_) => None,
    };
    let (fence, usage) = (row.fence, row.totals.usage);
    let answer = sqlx::query!(
        r#"
        WITH own AS MATERIALIZED (
            -- The fence, under the row's lock.
            SELECT r.id AS run_id, r.session_id, r.cancel_requested_at
            FROM runs r WHERE r.id = $1::uuid AND r.status = 'RUNNING' AND r.lease_owner = $2::uuid AND r.lease_epoch = $3::int4 AND r.appends = $4::int4
            FOR NO KEY UPDATE
        ), num AS (
            UPDATE sessions s SET last_sequence = s.last_sequence + cardinality($14::text[]) FROM own
            WHERE s.id = own.session_id AND own.cancel_requested_at IS NULL
            RETURNING own.run_id, s.id AS session_id, s.last_sequence - cardinality($14::text[]) AS base, s.last_sequence AS top
        ), upd AS (
            UPDATE runs r SET status = $5::text, lease_owner = NULL, appends = r.appends + 1, pending_approvals = cardinality($35::uuid[]),
                step_count = $6::int4, model_calls = $7::int4, tool_calls = $8::int4, input_tokens = $9::int8, cached_input_tokens = $10::int8,
                cache_write_input_tokens = $11::int8, output_tokens = $12::int8, reasoning_tokens = $13::int8, cost_usd = $34::numeric,
                status_since = now(), updated_at = now()
            FROM num WHERE r.id = num.run_id
            RETURNING r.id AS run_id, r.session_id, r.tenant_id, r.principal_id, r.agent_version, r.scopes, num.base, num.top
        ), inv AS (
            INSERT INTO tool_invocations (id, run_id, step, call_index, call_id, tool_name, tool_version, schema_sha256, arguments,
                side_effect, idempotency, idempotency_key, status)
            SELECT i.id, upd.run_id, i.step, i.call_index, i.call_id, i.tool_name, i.tool_version, i.schema_sha256, i.arguments,
                i.side_effect, i.idempotency, i.key, i.status
            FROM upd CROSS JOIN unnest($19::uuid[], $20::int4[], $21::int4[], $22::text[], $23::text[], $24::text[], $25::text[],
                $26::text[], $27::text[], $28::text[], $29::text[], $30::text[])
                AS i(id, step, call_index, call_id, tool_name, tool_version, schema_sha256, arguments, side_effect, idempotency, key, status)
            RETURNING id
        ), moved AS (
            UPDATE tool_invocations i SET status = m.status, updated_at = now(),
                effect_sent_at = CASE WHEN m.effect_sent THEN coalesce(i.effect_sent_at, now()) ELSE i.effect_sent_at END
            FROM upd CROSS JOIN unnest($31::uuid[], $32::text[], $33::bool[]) AS m(id, status, effect_sent)
            WHERE i.id = m.id AND i.run_id = upd.run_id
        ), app AS (
            -- The circumstances are those of the run's row: what an approval is given for.
            INSERT INTO approvals (id, run_id, session_id, tenant_id, invocation_id, risk, expires_at, action_summary, policy_reason,
                policy_version, distinct_approver, agent_version, scopes, requested_by)
            SELECT a.id, upd.run_id, upd.session_id, upd.tenant_id, a.invocation_id, a.risk, now() + a.ttl * interval '1 second',
                a.action_summary, a.policy_reason, a.policy_version, a.distinct_approver, upd.agent_version, upd.scopes, upd.principal_id
            FROM upd CROSS JOIN unnest($35::uuid[], $36::uuid[], $37::text[], $38::float8[], $39::text[], $40::text[], $41::text[], $42::bool[])
                AS a(id, invocation_id, risk, ttl, action_summary, policy_reason, policy_version, distinct_approver)
        ), que AS (
            INSERT INTO questions (id, run_id, invocation_id, question, choices, expires_at)
            SELECT $43::uuid, upd.run_id, $44::uuid, $45::text, $46::text, now() + $47::float8 * interval '1 second'
            FROM upd WHERE $43::uuid IS NOT NULL
        ), ins AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT upd.session_id, upd.base + e.k, upd.run_id, e.type, e.schema_version,
                CASE WHEN e.ttl IS NULL THEN e.body ELSE replace(e.body, e.expiry, '"expires_at":"'
                    || to_char((now() + e.ttl * interval '1 second') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"') END
            FROM upd CROSS JOIN unnest($14::text[], $15::int2[], $16::text[], $17::text[], $18::float8[]) WITH ORDINALITY
                AS e(type, schema_version, body, expiry, ttl, k)
        )
        SELECT upd.run_id IS NOT NULL AS "suspended!", upd.top AS "last_sequence?" FROM own LEFT JOIN upd ON upd.run_id = own.run_id
        "#,
        fence.run_id,
        fence.owner,
        fence.epoch,
        fence.appends,
        row.asks.status().as_str(),
        i32::try_from(row.totals.step_count).unwrap_or(i32::MAX),
        usage.model_calls,
        usage.tool_calls,
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.cache_write_input_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        &events.types,
        &events.versions,
        &events.bodies,
        &events.expiries as &[Option<String>],
        &events.ttls as &[Option<f64>],
        &calls.new.id,
        &calls.new.step,
        &calls.new.index,
        &calls.new.call_id,
        &calls.new.tool_name,
        &calls.new.tool_version,
        &calls.new.schema_sha256,
        &calls.new.arguments,
        &calls.new.side_effect,
        &calls.new.idempotency,
        &calls.new.key,
        &calls.new.status,
        &calls.moved.id,
        &calls.moved.status,
        &calls.moved.effect_sent,
        usage.cost_usd,
        &approvals.id,
        &approvals.invocation_id,
        &approvals.risk,
        &approvals.ttl_seconds,
        &approvals.action_summary,
        &approvals.policy_reason,
        &approvals.policy_version,
        &approvals.distinct_approver,
        question.map(|question| question.id),
        question.map(|question| question.invocation_id),
        question.map(|question| question.question.as_str()),
        question.and_then(|question| question.choices.as_deref()),
        question.map(|question| question.ttl.as_secs_f64()),
    )
    .fetch_optional(pool)
    .await?;
    Ok(answer.map(|row| match row.last_sequence {
        Some(last_sequence) if row.suspended => Suspended::Waiting { last_sequence },
        _ => Suspended::CancelRequested,
    }))
}

#[derive(Default)]
struct EventColumns {
    types: Vec<String>,
    versions: Vec<i16>,
    bodies: Vec<String>,
    expiries: Vec<Option<String>>,
    ttls: Vec<Option<f64>>,
}

impl EventColumns {
    fn of(events: &[AskingEvent]) -> Self {
        let mut columns = Self::default();
        for AskingEvent { row, expiry } in events {
            columns.types.push(row.event_type.to_owned());
            columns.versions.push(row.schema_version);
            columns.bodies.push(row.body.clone());
            columns.expiries.push(expiry.as_ref().map(|(member, _)| member.clone()));
            columns.ttls.push(expiry.as_ref().map(|(_, ttl)| ttl.as_secs_f64()));
        }
        columns
    }
}

#[derive(Default)]
struct ApprovalColumns {
    id: Vec<Uuid>,
    invocation_id: Vec<Uuid>,
    risk: Vec<String>,
    ttl_seconds: Vec<f64>,
    action_summary: Vec<String>,
    policy_reason: Vec<String>,
    policy_version: Vec<String>,
    distinct_approver: Vec<bool>,
}

impl ApprovalColumns {
    fn of(asks: &Asks) -> Self {
        let mut columns = Self::default();
        let Asks::Approvals(approvals) = asks else { return columns };
        for approval in approvals {
            columns.id.push(approval.id);
            columns.invocation_id.push(approval.invocation_id);
            columns.risk.push(approval.risk.clone());
            columns.ttl_seconds.push(approval.ttl.as_secs_f64());
            columns.action_summary.push(approval.action_summary.clone());
            columns.policy_reason.push(approval.policy_reason.clone());
            columns.policy_version.push(approval.policy_version.clone());
            columns.distinct_approver.push(approval.distinct_approver);
        }
        columns
    }
}
