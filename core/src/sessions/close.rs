//! Closing a session: it takes no more messages, for ever.

use sqlx::PgPool;
use uuid::Uuid;

use crate::db;
use crate::error::{Conflict, Error};
use crate::principal::Principal;

/// What a request found and did.
struct Answer {
    /// `closed`; `already`, where it was closed before; `busy`, while a run is unfinished; `stale`, where the session moved
    /// while its lock was waited for, and its runs are not in this snapshot: ask again at once.
    outcome: String,
    last_sequence: i64,
    active_run_id: Option<Uuid>,
    active_run_status: Option<String>,
}

/// Asks again after `Stale`, at once and at most so often.
const STALE_TRIES_MAX: u32 = 10;

/// The sequence of the session's last event. None: no such session for this principal.
///
/// # Errors
/// `Conflict` while a run is unfinished; `ConcurrencyConflict` where others would not let it settle.
pub(super) async fn close(pool: &PgPool, principal: &Principal, id: Uuid) -> Result<Option<i64>, Error> {
    for _ in 0..STALE_TRIES_MAX {
        let Some(answer) = db::repeat_when_lost(|| once(pool, principal, id)).await? else { return Ok(None) };
        match answer.outcome.as_str() {
            "stale" => {}
            "busy" => return Err(busy(answer.active_run_id, answer.active_run_status.as_deref())),
            _ => return Ok(Some(answer.last_sequence)),
        }
    }
    Err(Error::ConcurrencyConflict)
}

/// What stands in the way of an end: the run that a statement found unfinished.
pub(super) fn busy(run_id: Option<Uuid>, status: Option<&str>) -> Error {
    match (run_id, status.map(str::parse)) {
        (Some(run_id), Some(Ok(status))) => Error::Conflict(Conflict::ActiveRun { run_id, status }),
        (_, Some(Err(unknown))) => Error::internal(unknown),
        _ => Error::internal("a session is busy without a run"),
    }
}

async fn once(pool: &PgPool, principal: &Principal, id: Uuid) -> Result<Option<Answer>, sqlx::Error> {
    sqlx::query_as!(
        Answer,
        r#"
        WITH snap AS MATERIALIZED (
            SELECT s.last_sequence, r.id AS active_run_id, r.status AS active_run_status
            FROM sessions s LEFT JOIN runs r ON r.session_id = s.id AND r.tenant_id = s.tenant_id AND r.finished_at IS NULL
            WHERE s.id = $1::uuid AND s.tenant_id = $2::text AND s.principal_id = $3::text
        ), ses AS MATERIALIZED (
            SELECT s.id, s.status, s.last_sequence FROM sessions s
            WHERE s.id = $1::uuid AND s.tenant_id = $2::text AND s.principal_id = $3::text
            FOR NO KEY UPDATE
        ), kind AS MATERIALIZED (
            -- Every change of the session's runs moves the counter: where it has not moved, the snapshot is what we hold. Without
            -- it a submission that we waited for would go unseen, and leave a closed session with an unfinished run.
            SELECT ses.id, ses.last_sequence, snap.active_run_id, snap.active_run_status, CASE
                WHEN ses.status = 'CLOSED' THEN 'already'
                WHEN ses.last_sequence <> snap.last_sequence THEN 'stale'
                WHEN snap.active_run_id IS NOT NULL THEN 'busy'
                ELSE 'closed' END AS outcome
            FROM ses CROSS JOIN snap
        ), num AS (
            -- updated_at stays: it is about messages and the ends of runs.
            UPDATE sessions s SET status = 'CLOSED', last_sequence = s.last_sequence + 1
            FROM kind WHERE s.id = kind.id AND kind.outcome = 'closed'
            RETURNING s.id, s.last_sequence
        ), ev AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT num.id, num.last_sequence, NULL, 'session.closed', 1, '{}' FROM num
        )
        SELECT kind.outcome AS "outcome!", coalesce(num.last_sequence, kind.last_sequence) AS "last_sequence!",
            kind.active_run_id AS "active_run_id?", kind.active_run_status AS "active_run_status?"
        FROM kind LEFT JOIN num ON num.id = kind.id
        "#,
        id,
        principal.tenant_id,
        principal.principal_id,
    )
    .fetch_optional(pool)
    .await
}
