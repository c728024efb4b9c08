//! The rows of runs, for those who submit and read them. Whoever executes them uses `execution`.

use sqlx::PgPool;
use uuid::Uuid;

use crate::db;
use crate::error::Error;
use crate::events::{Event, UserMessageCreated};
use crate::idempotency::{IdempotencyKey, KeyTtl};
use crate::page::{Cursor, PageRequest};
use crate::principal::Principal;
use crate::runs::command::{SubmitMessage, title_of};
use crate::runs::row::Row;
use crate::runs::service::RunFilter;
use crate::runs::status::RunStatus;
use crate::runs::view::RunView;

pub(super) struct NewRun<'a> {
    pub(super) id: Uuid,
    pub(super) session_id: Uuid,
    pub(super) command: &'a SubmitMessage,
    pub(super) metadata: &'a str,
    pub(super) key: Option<&'a IdempotencyKey>,
    pub(super) key_ttl: KeyTtl,
}

/// What one submission did.
pub(super) enum Submission {
    Created {
        last_sequence: i64,
    },
    /// The key came to exist meanwhile: look it up in a new statement.
    KeyExists,
    /// The key was known, or the session is missing, foreign or closed: read which.
    NoSession,
    /// The session has an unfinished run; nothing was left behind, the key neither.
    Busy,
    /// This very run had been committed before, and the answer was lost.
    Repeat,
}

/// The run, its key, its first two events and the session's counter: all or nothing, in one statement.
pub(super) async fn submit(pool: &PgPool, principal: &Principal, new: &NewRun<'_>) -> Result<Submission, sqlx::Error> {
    let command = new.command;
    let limits = &command.limits;
    let scopes: Vec<String> = principal.scopes.iter().map(ToString::to_string).collect();
    let message = Event::UserMessageCreated(UserMessageCreated { content: command.content.clone() });
    let answer = sqlx::query!(
        r#"
        WITH ses AS MATERIALIZED (
            -- Held from here to the commit: it orders the writers of this session.
            SELECT s.id, s.tenant_id, s.principal_id
            FROM sessions s
            WHERE s.id = $1::uuid AND s.tenant_id = $2::text AND s.principal_id = $3::text AND s.status = 'ACTIVE'
              -- The lock is a write: a key that is known already is answered without one.
              AND ($18::text IS NULL OR NOT EXISTS (
                SELECT 1 FROM idempotency_keys k
                WHERE k.tenant_id = $2::text AND k.principal_id = $3::text AND k.key = $18::text
              ))
            FOR NO KEY UPDATE
        ), key AS (
            -- Session before key, everywhere. A concurrent request with this key is waited for.
            INSERT INTO idempotency_keys (tenant_id, principal_id, key, request_sha256, run_id, expires_at)
            SELECT ses.tenant_id, ses.principal_id, $18::text, $19::bytea, $4::uuid, now() + $20::float8 * interval '1 second'
            FROM ses WHERE $18::text IS NOT NULL
            ON CONFLICT (tenant_id, principal_id, key) DO NOTHING
            RETURNING run_id
        ), num AS (
            UPDATE sessions s SET last_sequence = s.last_sequence + 2, title = coalesce(s.title, $16::text), updated_at = now()
            FROM ses WHERE s.id = ses.id AND ($18::text IS NULL OR EXISTS (SELECT 1 FROM key))
            RETURNING s.id, s.tenant_id, s.principal_id, s.agent_id, s.agent_version, s.last_sequence - 1 AS first_sequence
        ), run AS (
            -- The one-unfinished-run index decides: a violation undoes the key and the counter with it. LEAST ignores nulls.
            INSERT INTO runs (id, session_id, tenant_id, principal_id, scopes, agent_id, agent_version, status, priority, metadata, traceparent,
                max_steps, max_model_calls, max_tool_calls, max_input_tokens, max_output_tokens, max_cost_usd, deadline_at, first_sequence)
            SELECT $4::uuid, num.id, num.tenant_id, num.principal_id, $5::text[], num.agent_id, num.agent_version, 'QUEUED', $6::text, $7::text, $8::text,
                least($9::int4, a.max_steps), least($10::int4, a.max_model_calls), least($11::int4, a.max_tool_calls),
                least($12::int8, a.max_input_tokens), least($13::int8, a.max_output_tokens), least($14::numeric, a.max_cost_usd),
                now() + least($15::int4, a.deadline_seconds) * interval '1 second', num.first_sequence
            FROM num JOIN agent_versions a ON a.agent_id = num.agent_id AND a.version = num.agent_version
            RETURNING id, session_id, first_sequence
        ), ev AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT run.session_id, run.first_sequence + e.k, run.id, e.type, 1, e.body
            FROM run CROSS JOIN (VALUES (0, 'user.message.created', $17::text), (1, 'run.queued', '{"priority":"' || $6::text || '"}')) AS e(k, type, body)
        )
        SELECT EXISTS (SELECT 1 FROM ses) AS "session_found!", (SELECT min(first_sequence) FROM run) AS first_sequence
        "#,
        new.session_id,
        principal.tenant_id,
        principal.principal_id,
        new.id,
        &scopes,
        command.priority.as_str(),
        new.metadata,
        command.traceparent.as_deref(),
        limits.max_steps,
        limits.max_model_calls,
        limits.max_tool_calls,
        limits.max_input_tokens,
        limits.max_output_tokens,
        limits.max_cost_usd,
        limits.deadline_seconds,
        title_of(&command.content),
        message.body(),
        new.key.map(IdempotencyKey::key),
        new.key.map(IdempotencyKey::request_sha256),
        new.key_ttl.0.as_secs_f64(),
    )
    .fetch_one(pool)
    .await;
    match answer {
        Ok(row) => Ok(match row.first_sequence {
            Some(first_sequence) => Submission::Created { last_sequence: first_sequence + 1 },
            None if row.session_found => Submission::KeyExists,
            None => Submission::NoSession,
        }),
        Err(error) => match db::constraint(&error) {
            Some("runs_one_unfinished_per_session") => Ok(Submission::Busy),
            Some("runs_pkey") => Ok(Submission::Repeat),
            _ => Err(error),
        },
    }
}

/// The unfinished run of a session, with the question that it waits with and that may still be answered.
pub(super) struct Unfinished {
    pub(super) run_id: Uuid,
    pub(super) status: RunStatus,
    pub(super) question_id: Option<Uuid>,
}

pub(super) async fn unfinished(pool: &PgPool, principal: &Principal, session_id: Uuid) -> Result<Option<Unfinished>, Error> {
    let row = sqlx::query!(
        r#"
        SELECT r.id, r.status, q.id AS "question_id?"
        FROM runs r LEFT JOIN questions q ON q.run_id = r.id AND q.status = 'OPEN' AND q.expires_at > now()
        WHERE r.session_id = $1 AND r.tenant_id = $2 AND r.finished_at IS NULL
        "#,
        session_id,
        principal.tenant_id,
    )
    .fetch_optional(pool)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let status = row.status.parse().map_err(Error::internal)?;
    Ok(Some(Unfinished { run_id: row.id, status, question_id: row.question_id }))
}

/// What a stream needs to know of its run before its first byte.
pub(super) struct Extent {
    pub(super) session_id: Uuid,
    pub(super) first_sequence: i64,
    /// Of the terminal event, where there is one.
    pub(super) last_sequence: Option<i64>,
    /// The newest event of the session.
    pub(super) head: i64,
}

/// Where the run's events are, if the principal may read them.
pub(super) async fn extent(pool: &PgPool, principal: &Principal, id: Uuid) -> Result<Option<Extent>, Error> {
    let extent = sqlx::query_as!(
        Extent,
        r#"
        SELECT r.session_id, r.first_sequence, r.last_sequence, s.last_sequence AS head
        FROM runs r JOIN sessions s ON s.id = r.session_id
        WHERE r.id = $1 AND r.tenant_id = $2 AND ($3::text IS NULL OR r.principal_id = $3)
        "#,
        id,
        principal.tenant_id,
        principal.reads_owner(),
    )
    .fetch_optional(pool)
    .await?;
    Ok(extent)
}

/// The status of a run that the principal owns.
pub(super) async fn status(pool: &PgPool, principal: &Principal, id: Uuid) -> Result<Option<(Uuid, RunStatus)>, Error> {
    let row = sqlx::query!(
        "SELECT r.session_id, r.status FROM runs r WHERE r.id = $1 AND r.tenant_id = $2 AND r.principal_id = $3",
        id,
        principal.tenant_id,
        principal.principal_id,
    )
    .fetch_optional(pool)
    .await?;
    row.map(|row| Ok((row.session_id, row.status.parse().map_err(Error::internal)?))).transpose()
}

/// The run, where this principal may see it.
pub(super) async fn find(pool: &PgPool, principal: &Principal, id: Uuid) -> Result<Option<RunView>, Error> {
    let row = sqlx::query_as!(
        Row,
        r#"
        SELECT r.id, r.session_id, r.parent_run_id, r.agent_id, r.agent_version, r.status, r.priority, r.metadata, r.step_count,
            r.input_tokens, r.cached_input_tokens, r.cache_write_input_tokens, r.output_tokens, r.reasoning_tokens,
            r.model_calls, r.tool_calls, r.cost_usd,
            r.max_steps, r.max_model_calls, r.max_tool_calls, r.max_input_tokens, r.max_output_tokens, r.max_cost_usd, r.deadline_at,
            r.failure_reason, r.failure_message, r.failure_step, r.cancel_requested_at, r.cancel_observed_at,
            r.created_at, r.started_at, r.finished_at, r.updated_at,
            CASE WHEN r.status = 'WAITING_FOR_APPROVAL' THEN
                ARRAY(SELECT a.id FROM approvals a WHERE a.run_id = r.id AND a.status = 'PENDING' ORDER BY a.id)
            END AS approval_ids,
            q.id AS "question_id?", q.question AS "question?", q.choices, q.expires_at AS "question_expires_at?"
        FROM runs r
        -- Looked for where the run waits only. LIMIT keeps the planner from making a join of it.
        LEFT JOIN LATERAL (
            SELECT o.id, o.question, o.choices, o.expires_at FROM questions o
            WHERE o.run_id = r.id AND o.status = 'OPEN' AND r.status = 'WAITING_FOR_USER' LIMIT 1
        ) q ON true
        WHERE r.id = $1 AND r.tenant_id = $2 AND ($3::text IS NULL OR r.principal_id = $3)
        "#,
        id,
        principal.tenant_id,
        principal.reads_owner(),
    )
    .fetch_optional(pool)
    .await?;
    row.map(Row::into_view).transpose()
}

/// Newest first; one row more than the page, where there is one.
pub(super) async fn list(
    pool: &PgPool,
    principal: &Principal,
    filter: &RunFilter,
    page: &PageRequest,
) -> Result<Vec<RunView>, Error> {
    let after = page.cursor;
    let statuses: Vec<String> = filter.statuses.iter().map(ToString::to_string).collect();
    let rows = sqlx::query_as!(
        Row,
        r#"
        SELECT r.id, r.session_id, r.parent_run_id, r.agent_id, r.agent_version, r.status, r.priority, r.metadata, r.step_count,
            r.input_tokens, r.cached_input_tokens, r.cache_write_input_tokens, r.output_tokens, r.reasoning_tokens,
            r.model_calls, r.tool_calls, r.cost_usd,
            r.max_steps, r.max_model_calls, r.max_tool_calls, r.max_input_tokens, r.max_output_tokens, r.max_cost_usd, r.deadline_at,
            r.failure_reason, r.failure_message, r.failure_step, r.cancel_requested_at, r.cancel_observed_at,
            r.created_at, r.started_at, r.finished_at, r.updated_at,
            CASE WHEN r.status = 'WAITING_FOR_APPROVAL' THEN
                ARRAY(SELECT a.id FROM approvals a WHERE a.run_id = r.id AND a.status = 'PENDING' ORDER BY a.id)
            END AS approval_ids,
            q.id AS "question_id?", q.question AS "question?", q.choices, q.expires_at AS "question_expires_at?"
        FROM runs r
        -- Looked for where the run waits only. LIMIT keeps the planner from making a join of it.
        LEFT JOIN LATERAL (
            SELECT o.id, o.question, o.choices, o.expires_at FROM questions o
            WHERE o.run_id = r.id AND o.status = 'OPEN' AND r.status = 'WAITING_FOR_USER' LIMIT 1
        ) q ON true
        WHERE r.tenant_id = $1 AND ($2::text IS NULL OR r.principal_id = $2)
          AND ($3::uuid IS NULL OR r.session_id = $3)
          AND (cardinality($4::text[]) = 0 OR r.status = ANY($4))
          AND ($5::timestamptz IS NULL OR (r.created_at, r.id) < ($5, $6::uuid))
          AND ($8::timestamptz IS NULL OR r.created_at > $8) AND ($9::timestamptz IS NULL OR r.created_at < $9)
        ORDER BY r.created_at DESC, r.id DESC
        LIMIT $7
        "#,
        principal.tenant_id,
        principal.reads_owner(),
        filter.session_id,
        &statuses,
        after.map(|cursor: Cursor| cursor.created_at),
        after.map(|cursor| cursor.id),
        page.limit() + 1,
        filter.created_after,
        filter.created_before,
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(Row::into_view).collect()
}
