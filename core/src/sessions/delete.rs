//! Deleting a session: every row of it, in one statement. The bytes of its artifacts are queued in it and go afterwards.

use sqlx::PgPool;
use uuid::Uuid;

use crate::db;
use crate::error::Error;
use crate::sessions::close::busy;

/// Which session, and whose.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doomed<'a> {
    pub(super) id: Uuid,
    pub(super) tenant_id: &'a str,
    pub(super) principal_id: &'a str,
    /// Only if nothing has happened in it for so many days, by the database's clock.
    pub(super) idle_days: Option<i32>,
}

/// What a request found and did.
struct Answer {
    /// `deleted`; `busy`, while a run is unfinished; `stale`, where the session moved while its lock was waited for, and what
    /// hangs on it is not in this snapshot: ask again at once.
    outcome: String,
    active_run_id: Option<Uuid>,
    active_run_status: Option<String>,
}

/// Asks again after `Stale`, at once and at most so often.
const STALE_TRIES_MAX: u32 = 10;

/// False: no such session, perhaps since a moment ago.
///
/// # Errors
/// `Conflict` while a run is unfinished; `ConcurrencyConflict` where others would not let it settle.
pub(super) async fn delete(pool: &PgPool, doomed: Doomed<'_>) -> Result<bool, Error> {
    for _ in 0..STALE_TRIES_MAX {
        let Some(answer) = db::repeat_when_lost(|| once(pool, doomed)).await? else { return Ok(false) };
        match answer.outcome.as_str() {
            "stale" => {}
            "busy" => return Err(busy(answer.active_run_id, answer.active_run_status.as_deref())),
            _ => return Ok(true),
        }
    }
    Err(Error::ConcurrencyConflict)
}

async fn once(pool: &PgPool, doomed: Doomed<'_>) -> Result<Option<Answer>, sqlx::Error> {
    sqlx::query_as!(
        Answer,
        r#"
        WITH snap AS MATERIALIZED (
            SELECT s.id, s.last_sequence, r.id AS active_run_id, r.status AS active_run_status
            FROM sessions s LEFT JOIN runs r ON r.session_id = s.id AND r.tenant_id = s.tenant_id AND r.finished_at IS NULL
            WHERE s.id = $1::uuid AND s.tenant_id = $2::text AND s.principal_id = $3::text
        ), run AS MATERIALIZED (
            -- Runs by id before what hangs on them, and before their session, as everywhere. Nothing is locked where a run is
            -- unfinished.
            SELECT r.id FROM runs r JOIN snap ON r.session_id = snap.id AND snap.active_run_id IS NULL
            WHERE r.tenant_id = $2::text
            ORDER BY r.id FOR UPDATE OF r
        ), ses AS MATERIALIZED (
            -- The count makes the runs come first.
            SELECT s.id, s.last_sequence FROM sessions s
            WHERE s.id = (SELECT snap.id FROM snap WHERE snap.active_run_id IS NULL) AND (SELECT count(*) FROM run) >= 0
              AND ($4::int4 IS NULL OR s.updated_at < now() - $4::int4 * interval '1 day')
            FOR UPDATE
        ), kind AS MATERIALIZED (
            -- Every row that hangs on the session came with an event: where the counter has not moved, the snapshot has them all.
            SELECT snap.id, snap.active_run_id, snap.active_run_status, CASE
                WHEN snap.active_run_id IS NOT NULL THEN 'busy'
                WHEN ses.last_sequence <> snap.last_sequence THEN 'stale'
                ELSE 'deleted' END AS outcome
            FROM snap LEFT JOIN ses ON ses.id = snap.id
            WHERE snap.active_run_id IS NOT NULL OR ses.id IS NOT NULL
        ), gone AS MATERIALIZED (
            SELECT run.id FROM run JOIN kind ON kind.outcome = 'deleted'
        ), art AS (
            DELETE FROM artifacts a USING gone WHERE a.run_id = gone.id RETURNING a.id, a.session_id, a.tenant_id
        ), bytes AS (
            INSERT INTO artifact_deletions (artifact_id, session_id, tenant_id) SELECT art.id, art.session_id, art.tenant_id FROM art
        ), app AS (
            DELETE FROM approvals a USING gone WHERE a.run_id = gone.id
        ), que AS (
            DELETE FROM questions q USING gone WHERE q.run_id = gone.id
        ), inv AS (
            DELETE FROM tool_invocations i USING gone WHERE i.run_id = gone.id
        ), mod AS (
            DELETE FROM model_calls m USING gone WHERE m.run_id = gone.id
        ), con AS (
            DELETE FROM provider_continuations c USING gone WHERE c.run_id = gone.id
        ), ev AS (
            DELETE FROM events e USING kind WHERE e.session_id = kind.id AND kind.outcome = 'deleted'
        ), rns AS (
            -- Foreign keys are looked at when the statement has ended: the order of these does not matter.
            DELETE FROM runs r USING gone WHERE r.id = gone.id
        ), del AS (
            -- Keys stay: what they had created is not there any more, and that is what a repeat is told.
            DELETE FROM sessions s USING kind WHERE s.id = kind.id AND kind.outcome = 'deleted'
        )
        SELECT kind.outcome AS "outcome!", kind.active_run_id AS "active_run_id?", kind.active_run_status AS "active_run_status?"
        FROM kind
        "#,
        doomed.id,
        doomed.tenant_id,
        doomed.principal_id,
        doomed.idle_days,
    )
    .fetch_optional(pool)
    .await
}
