//! Asking a run to stop, and stopping it where nobody executes it.

use sqlx::PgPool;
use uuid::Uuid;

use crate::closed_set::closed_set;
use crate::db;
use crate::error::Error;
use crate::events::{Event, RunCancelRequested};
use crate::principal::Principal;

closed_set! {
    /// What a request to cancel found and did.
    CancelOutcome {
        /// The run was queued or waiting: it is CANCELLED, and what it had asked is closed.
        Cancelled = "cancelled",
        /// The run is executed, or a lost lease left a call unsettled: the worker settles it.
        Requested = "requested",
        /// Asked before; the first request stands.
        Repeated = "repeated",
        /// The run had ended.
        Finished = "finished",
        /// The run changed while its lock was waited for, and what hangs on it is not in this snapshot: ask again at once.
        Stale = "stale",
    }
}

/// Asks again after `Stale`, at once and at most so often.
const STALE_TRIES_MAX: u32 = 10;

/// One request to cancel, whatever state the run is in. `None`: no such run for this principal.
///
/// # Errors
/// The database's; `ConcurrencyConflict` where others would not let it settle.
pub async fn cancel(pool: &PgPool, principal: &Principal, run_id: Uuid) -> Result<Option<CancelOutcome>, Error> {
    for _ in 0..STALE_TRIES_MAX {
        match db::repeat_when_lost(|| once(pool, principal, run_id)).await? {
            Some(outcome) if outcome == CancelOutcome::Stale.as_str() => {}
            Some(outcome) => return outcome.parse().map(Some).map_err(Error::internal),
            None => return Ok(None),
        }
    }
    Err(Error::ConcurrencyConflict)
}

async fn once(pool: &PgPool, principal: &Principal, run_id: Uuid) -> Result<Option<String>, sqlx::Error> {
    let requested = Event::RunCancelRequested(RunCancelRequested { requested_by: principal.principal_id.clone() });
    sqlx::query_scalar!(
        r#"
        WITH snap AS MATERIALIZED (
            SELECT r.ctid AS version FROM runs r WHERE r.id = $1::uuid
        ), run AS MATERIALIZED (
            SELECT r.id, r.session_id, r.status, r.finished_at, r.cancel_requested_at, r.lease_owner, r.started_at,
                r.pending_approvals, r.resume_after, r.ctid AS version
            FROM runs r WHERE r.id = $1::uuid AND r.tenant_id = $2::text AND r.principal_id = $3::text
            FOR NO KEY UPDATE
        ), kind AS MATERIALIZED (
            SELECT run.*, CASE
                WHEN run.finished_at IS NOT NULL THEN 'finished'
                WHEN run.cancel_requested_at IS NOT NULL THEN 'repeated'
                WHEN run.status = 'RUNNING' THEN 'requested'
                -- The lock was waited for: rows that hang on the run may have been inserted meanwhile, unseen by this snapshot.
                WHEN run.version <> (SELECT snap.version FROM snap) THEN 'stale'
                WHEN EXISTS (SELECT 1 FROM tool_invocations i WHERE i.run_id = run.id AND i.status = 'RUNNING') THEN 'requested'
                ELSE 'cancelled' END AS outcome
            FROM run
        ), app AS (
            UPDATE approvals a SET status = 'CANCELLED', resolved_at = now() FROM kind
            WHERE a.run_id = kind.id AND a.status = 'PENDING' AND kind.outcome = 'cancelled' RETURNING a.id
        ), que AS (
            UPDATE questions q SET status = 'CANCELLED', closed_at = now() FROM kind
            WHERE q.run_id = kind.id AND q.status = 'OPEN' AND kind.outcome = 'cancelled' RETURNING q.id
        ), inv AS (
            UPDATE tool_invocations i SET status = 'CANCELLED', updated_at = now() FROM kind
            WHERE i.run_id = kind.id AND i.status IN ('PROPOSED','WAITING','AUTHORIZED') AND kind.outcome = 'cancelled' RETURNING i.id
        ), body AS MATERIALIZED (
            -- Reads app, que and inv, so that their rows are changed before the session is touched.
            SELECT kind.id AS run_id, kind.session_id, kind.outcome, e.type, e.body,
                row_number() OVER (ORDER BY e.rank, e.tag) AS k, count(*) OVER () AS n
            FROM kind CROSS JOIN LATERAL (
                SELECT 1 AS rank, '' AS tag, 'run.cancel_requested' AS type, $4::text AS body
                UNION ALL SELECT 2, app.id::text, 'approval.resolved', '{"approval_id":"' || app.id || '","decision":"cancelled"}' FROM app
                UNION ALL SELECT 3, '', 'run.cancelled', NULL
                    WHERE kind.outcome = 'cancelled' AND (SELECT count(*) FROM que) >= 0 AND (SELECT count(*) FROM inv) >= 0) e
            WHERE kind.outcome IN ('cancelled','requested')
        ), num AS (
            UPDATE sessions s SET last_sequence = s.last_sequence + b.n,
                updated_at = CASE WHEN b.outcome = 'cancelled' THEN now() ELSE s.updated_at END
            FROM (SELECT body.* FROM body WHERE body.k = 1) b WHERE s.id = b.session_id
            RETURNING b.run_id, b.session_id, b.outcome, s.last_sequence - b.n AS base, s.last_sequence AS top
        ), upd AS (
            UPDATE runs r SET cancel_requested_at = now(), cancel_requested_by = $3::text, updated_at = now(), scheduled_for = NULL,
                -- What stays is written from the locked row, not from r: CHECKs are first tried on a row built from the
                -- snapshot's r, before the newer version is looked at.
                lease_owner = kind.lease_owner, started_at = kind.started_at,
                status = CASE WHEN num.outcome = 'cancelled' THEN 'CANCELLED' ELSE kind.status END,
                pending_approvals = CASE WHEN num.outcome = 'cancelled' THEN 0 ELSE kind.pending_approvals END,
                resume_after = CASE WHEN num.outcome = 'cancelled' THEN NULL ELSE kind.resume_after END,
                cancel_observed_at = CASE WHEN num.outcome = 'cancelled' THEN now() END,
                finished_at = CASE WHEN num.outcome = 'cancelled' THEN now() END,
                last_sequence = CASE WHEN num.outcome = 'cancelled' THEN num.top END,
                status_since = CASE WHEN num.outcome = 'cancelled' THEN now() ELSE r.status_since END
            FROM num JOIN kind ON kind.id = num.run_id WHERE r.id = num.run_id
            RETURNING r.id AS run_id, run_usage(r) AS usage, num.base, num.session_id, r.finished_at IS NOT NULL AS is_over
        ), dropped AS (
            DELETE FROM provider_continuations c USING upd WHERE c.run_id = upd.run_id AND upd.is_over
        ), ev AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT u.session_id, u.base + b.k, u.run_id, b.type, 1, coalesce(b.body, '{"usage":' || u.usage || '}')
            FROM upd u JOIN body b ON b.run_id = u.run_id
        )
        SELECT kind.outcome AS "outcome!" FROM kind LEFT JOIN upd ON upd.run_id = kind.id
        "#,
        run_id,
        principal.tenant_id,
        principal.principal_id,
        requested.body(),
    )
    .fetch_optional(pool)
    .await
}
