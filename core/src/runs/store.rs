//! The rows of runs, for those who submit and read them. Whoever executes them uses `execution`.

use sqlx::PgPool;
use uuid::Uuid;

use crate::error::Error;
use crate::page::{Cursor, PageRequest};
use crate::principal::Principal;
use crate::runs::row::Row;
use crate::runs::service::RunFilter;
use crate::runs::status::RunStatus;
use crate::runs::view::RunView;

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
