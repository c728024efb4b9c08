//! What maintenance does to runs that nobody executes. Each statement is bounded, idempotent, and safe beside itself.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Error;
use crate::runs::FailureReason;

/// Runs a pass of a sweep changes at most: keeps each statement well below a second.
const AT_MOST: i32 = 500;

/// Marks workers whose lease has expired. A statement of its own: the re-queue must begin with a snapshot that sees the mark.
/// A row that is being renewed at this moment is skipped.
pub(in crate::execution) async fn mark_dead_workers(conn: &mut PgConnection) -> Result<Vec<Uuid>, Error> {
    let marked = sqlx::query_scalar!(
        r#"
        WITH late AS MATERIALIZED (
            SELECT w.id FROM workers w WHERE w.expires_at < now() AND NOT w.dead ORDER BY w.id FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE workers w SET dead = true FROM late WHERE w.id = late.id RETURNING w.id
        "#,
    )
    .fetch_all(conn)
    .await?;
    Ok(marked)
}

/// A run that lost its worker.
#[derive(Debug)]
pub(in crate::execution) struct Lost {
    pub(in crate::execution) run_id: Uuid,
    pub(in crate::execution) session_id: Uuid,
    /// It lost too many, and was failed.
    pub(in crate::execution) failed: bool,
    pub(in crate::execution) last_sequence: i64,
}

/// Running runs of dead or missing workers: due at once after the first loss, 2 s after the second, doubling to 60 s; the loss
/// that reaches the maximum fails the run. Nobody will take a failed one up: what its calls may have done is said here.
pub(in crate::execution) async fn requeue_lost(conn: &mut PgConnection, lease_losses_max: i32) -> Result<Vec<Lost>, Error> {
    let lost = sqlx::query_as!(
        Lost,
        r#"
        WITH cand AS MATERIALIZED (
            -- Decided by snapshot, so named by epoch: a run that was claimed again meanwhile, by a worker that this snapshot
            -- does not know, is not touched.
            SELECT r.id, r.lease_owner, r.lease_epoch, r.ctid AS version FROM runs r
            WHERE r.status = 'RUNNING' AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = r.lease_owner AND NOT w.dead)
            ORDER BY r.id LIMIT $2::int4
        ), lock AS MATERIALIZED (
            SELECT r.id, r.session_id, r.lease_losses, r.ctid AS version
            FROM runs r JOIN cand c ON c.id = r.id
            WHERE r.status = 'RUNNING' AND r.lease_epoch = c.lease_epoch AND r.lease_owner = c.lease_owner
            ORDER BY r.id FOR NO KEY UPDATE OF r SKIP LOCKED
        ), own AS MATERIALIZED (
            -- A write of its worker that came in between may have brought rows of calls that this snapshot does not show: such a
            -- run is left to the next pass.
            SELECT l.id AS run_id, l.session_id, l.lease_losses + 1 >= $1::int4 AS fails
            FROM lock l JOIN cand c ON c.id = l.id AND c.version = l.version
        ), inv AS (
            UPDATE tool_invocations i SET updated_at = now(), status = CASE
                WHEN i.status = 'RUNNING' AND (i.effect_sent_at IS NOT NULL OR i.idempotency = 'idempotent') THEN 'UNCERTAIN' ELSE 'CANCELLED' END
            FROM own WHERE own.fails AND i.run_id = own.run_id AND i.status IN ('PROPOSED','WAITING','AUTHORIZED','RUNNING')
            RETURNING i.id, i.run_id, i.call_id, i.status
        ), ses AS MATERIALIZED (
            SELECT s.id, own.run_id, own.fails,
                1 + (SELECT count(*) FROM inv WHERE inv.run_id = own.run_id AND inv.status = 'UNCERTAIN') AS n
            FROM sessions s JOIN own ON own.session_id = s.id ORDER BY s.id FOR NO KEY UPDATE OF s
        ), num AS (
            UPDATE sessions s SET last_sequence = s.last_sequence + ses.n,
                updated_at = CASE WHEN ses.fails THEN now() ELSE s.updated_at END
            FROM ses WHERE s.id = ses.id
            RETURNING s.id AS session_id, ses.run_id, ses.fails, s.last_sequence - ses.n AS base, s.last_sequence
        ), upd AS (
            UPDATE runs r SET status = CASE WHEN num.fails THEN 'FAILED' ELSE 'QUEUED' END, lease_owner = NULL, lease_losses = r.lease_losses + 1,
                resume_after = CASE WHEN NOT num.fails THEN 'lease_expired' END,
                scheduled_for = CASE WHEN NOT num.fails AND r.lease_losses > 0 AND r.cancel_requested_at IS NULL
                    THEN now() + least(60, power(2, least(r.lease_losses, 6))) * interval '1 second' END,
                failure_reason = CASE WHEN num.fails THEN 'lease_lost_too_often' END,
                failure_message = CASE WHEN num.fails THEN $3::text END,
                failure_step = CASE WHEN num.fails THEN nullif(r.step_count, 0) END,
                finished_at = CASE WHEN num.fails THEN now() END, last_sequence = CASE WHEN num.fails THEN num.last_sequence END,
                status_since = now(), updated_at = now()
            FROM num WHERE r.id = num.run_id
            RETURNING r.id AS run_id, num.session_id, num.fails, num.base, num.last_sequence AS sequence, r.failure_step,
                run_usage(r) AS usage
        ), dropped AS (
            DELETE FROM provider_continuations c USING upd WHERE c.run_id = upd.run_id AND upd.fails
        ), ev AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT u.session_id, u.base + row_number() OVER (PARTITION BY u.run_id ORDER BY inv.id), u.run_id, 'tool.call.uncertain', 1,
                '{"call_id":' || to_json(inv.call_id)::text || ',"invocation_id":"' || inv.id || '"}'
            FROM upd u JOIN inv ON inv.run_id = u.run_id AND inv.status = 'UNCERTAIN'
            UNION ALL
            SELECT u.session_id, u.sequence, u.run_id, CASE WHEN u.fails THEN 'run.failed' ELSE 'run.requeued' END, 1,
                CASE WHEN NOT u.fails THEN '{"cause":"lease_expired"}' ELSE '{"failure":{"message":' || to_json($3::text)::text || ',"occurred_at":"'
                    || to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '","reason":"lease_lost_too_often"'
                    || coalesce(',"step":' || u.failure_step, '') || '},"usage":' || u.usage || '}' END
            FROM upd u
        )
        SELECT upd.run_id, upd.session_id, upd.fails AS "failed!", upd.sequence AS "last_sequence!" FROM upd
        "#,
        lease_losses_max,
        AT_MOST,
        FailureReason::LeaseLostTooOften.message(),
    )
    .fetch_all(conn)
    .await?;
    Ok(lost)
}

/// Puts re-queued runs whose time has come into the queue's index. It skips what is locked: it never waits while it holds a run.
pub(in crate::execution) async fn clear_due(conn: &mut PgConnection) -> Result<u64, Error> {
    let due = sqlx::query!(
        r#"
        WITH own AS MATERIALIZED (
            SELECT r.id, r.session_id FROM runs r WHERE r.status = 'QUEUED' AND r.scheduled_for <= now()
            ORDER BY r.scheduled_for LIMIT $1::int4 FOR NO KEY UPDATE OF r SKIP LOCKED
        ), ses AS MATERIALIZED (
            SELECT own.id AS run_id FROM sessions s JOIN own ON own.session_id = s.id ORDER BY s.id FOR NO KEY UPDATE OF s SKIP LOCKED
        )
        UPDATE runs r SET scheduled_for = NULL, updated_at = now() FROM ses WHERE r.id = ses.run_id
        "#,
        AT_MOST,
    )
    .execute(conn)
    .await?;
    Ok(due.rows_affected())
}

/// A run that was failed for its time.
#[derive(Debug)]
pub(in crate::execution) struct Overdue {
    pub(in crate::execution) run_id: Uuid,
    pub(in crate::execution) session_id: Uuid,
    pub(in crate::execution) reason: String,
    pub(in crate::execution) last_sequence: i64,
}

/// Runs that nobody executes, past their deadline or with an expired approval or question: FAILED; what was open becomes
/// EXPIRED or CANCELLED. One that moved since the snapshot is left to the next pass, one with an unsettled call to the next
/// claim, which settles it first.
pub(in crate::execution) async fn fail_overdue(conn: &mut PgConnection) -> Result<Vec<Overdue>, Error> {
    let overdue = sqlx::query_as!(
        Overdue,
        r#"
        WITH cand AS MATERIALIZED (
            SELECT c.id, (min(c.rank || c.reason)) AS reason FROM (
                (SELECT r.id, 3 AS rank, 'deadline_exceeded' AS reason FROM runs r
                 WHERE r.status IN ('QUEUED','WAITING_FOR_APPROVAL','WAITING_FOR_USER') AND r.deadline_at < now() ORDER BY r.deadline_at LIMIT $1::int4)
                UNION ALL (SELECT a.run_id, 1, 'approval_expired' FROM approvals a
                 WHERE a.status = 'PENDING' AND a.expires_at < now() ORDER BY a.expires_at LIMIT $1::int4)
                UNION ALL (SELECT q.run_id, 2, 'input_deadline_exceeded' FROM questions q
                 WHERE q.status = 'OPEN' AND q.expires_at < now() ORDER BY q.expires_at LIMIT $1::int4)) c
            GROUP BY c.id
        ), snap AS MATERIALIZED (
            SELECT r.id, r.ctid AS version, substr(c.reason, 2) AS reason FROM runs r JOIN cand c ON c.id = r.id
        ), lock AS MATERIALIZED (
            SELECT r.id, r.session_id, r.status, r.ctid AS version FROM runs r JOIN cand c ON c.id = r.id
            WHERE r.status IN ('QUEUED','WAITING_FOR_APPROVAL','WAITING_FOR_USER')
              AND NOT EXISTS (SELECT 1 FROM tool_invocations i WHERE i.run_id = r.id AND i.status = 'RUNNING')
            ORDER BY r.id FOR NO KEY UPDATE OF r SKIP LOCKED
        ), own AS MATERIALIZED (
            SELECT l.id, l.session_id, s.reason FROM lock l JOIN snap s ON s.id = l.id AND s.version = l.version
        ), app AS (
            UPDATE approvals a SET status = CASE WHEN a.expires_at < now() THEN 'EXPIRED' ELSE 'CANCELLED' END, resolved_at = now() FROM own
            WHERE a.run_id = own.id AND a.status = 'PENDING' RETURNING a.id, a.run_id, a.status
        ), que AS (
            UPDATE questions q SET status = CASE WHEN q.expires_at < now() THEN 'EXPIRED' ELSE 'CANCELLED' END, closed_at = now() FROM own
            WHERE q.run_id = own.id AND q.status = 'OPEN' RETURNING q.id
        ), inv AS (
            UPDATE tool_invocations i SET status = 'CANCELLED', updated_at = now() FROM own
            WHERE i.run_id = own.id AND i.status IN ('PROPOSED','WAITING','AUTHORIZED') RETURNING i.id
        ), ses AS MATERIALIZED (
            -- Reads app, que and inv, so that their rows are changed before the session is touched.
            SELECT s.id, own.id AS run_id, own.reason, 1 + (SELECT count(*) FROM app WHERE app.run_id = own.id) AS n
            FROM sessions s JOIN own ON own.session_id = s.id
            WHERE (SELECT count(*) FROM que) >= 0 AND (SELECT count(*) FROM inv) >= 0 ORDER BY s.id FOR NO KEY UPDATE OF s
        ), num AS (
            UPDATE sessions s SET last_sequence = s.last_sequence + ses.n, updated_at = now() FROM ses WHERE s.id = ses.id
            RETURNING s.id AS session_id, ses.run_id, ses.reason, s.last_sequence - ses.n AS base, s.last_sequence AS top
        ), upd AS (
            UPDATE runs r SET status = 'FAILED', pending_approvals = 0, resume_after = NULL, scheduled_for = NULL, failure_reason = num.reason,
                failure_message = CASE num.reason WHEN 'approval_expired' THEN $3::text WHEN 'input_deadline_exceeded' THEN $4::text ELSE $2::text END,
                failure_step = nullif(r.step_count, 0), finished_at = now(), last_sequence = num.top, status_since = now(), updated_at = now()
            FROM num WHERE r.id = num.run_id
            RETURNING r.id AS run_id, num.session_id, num.base, num.top, r.failure_reason, r.failure_message, r.failure_step, run_usage(r) AS usage
        ), dropped AS (
            DELETE FROM provider_continuations c USING upd WHERE c.run_id = upd.run_id
        ), ev AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT u.session_id, u.base + row_number() OVER (PARTITION BY u.run_id ORDER BY a.id), u.run_id, 'approval.resolved', 1,
                '{"approval_id":"' || a.id || '","decision":"' || lower(a.status) || '"}' FROM upd u JOIN app a ON a.run_id = u.run_id
            UNION ALL
            SELECT u.session_id, u.top, u.run_id, 'run.failed', 1, '{"failure":{"message":' || to_json(u.failure_message)::text || ',"occurred_at":"'
                || to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '","reason":"' || u.failure_reason || '"'
                || coalesce(',"step":' || u.failure_step, '') || '},"usage":' || u.usage || '}' FROM upd u
        )
        SELECT upd.run_id, upd.session_id, upd.failure_reason AS "reason!", upd.top AS "last_sequence!" FROM upd
        "#,
        AT_MOST,
        FailureReason::DeadlineExceeded.message(),
        FailureReason::ApprovalExpired.message(),
        FailureReason::InputDeadlineExceeded.message(),
    )
    .fetch_all(conn)
    .await?;
    Ok(overdue)
}

/// A run that waited for approvals of which none was open.
#[derive(Debug)]
pub(in crate::execution) struct Repaired {
    pub(in crate::execution) run_id: Uuid,
    pub(in crate::execution) session_id: Uuid,
    /// It had been answered, and goes on; else nobody could ever have answered it, and it was failed.
    pub(in crate::execution) requeued: bool,
    pub(in crate::execution) last_sequence: i64,
}

/// Runs that wait for approvals of which none is open. There are none, unless somebody edits rows by hand: then they must not
/// wait for ever. One whose approvals were answered, by rows and log, goes back to the queue, as the last answer should have
/// sent it; one whose approvals are gone, or answered behind the log's back, fails.
pub(in crate::execution) async fn repair_waiting(conn: &mut PgConnection) -> Result<Vec<Repaired>, Error> {
    let repaired = sqlx::query_as!(
        Repaired,
        r#"
        WITH own AS MATERIALIZED (
            -- An answer under way holds the run's row: it is skipped.
            SELECT r.id, r.session_id,
                EXISTS (SELECT 1 FROM approvals a WHERE a.run_id = r.id AND a.created_at = r.status_since AND a.status IN ('APPROVED','DENIED'))
                -- A worker goes by the log: while that has an open approval, nobody could take the run up.
                AND NOT EXISTS (SELECT 1 FROM events q
                    WHERE q.session_id = r.session_id AND q.sequence >= r.first_sequence AND q.type = 'approval.requested'
                      AND NOT EXISTS (SELECT 1 FROM events e
                        WHERE e.session_id = q.session_id AND e.sequence > q.sequence AND e.type = 'approval.resolved'
                          AND e.body::jsonb ->> 'approval_id' = q.body::jsonb ->> 'approval_id')) AS answered
            FROM runs r
            WHERE r.status = 'WAITING_FOR_APPROVAL'
              -- In every snapshot the two are equal. Only where they are not is anything looked for.
              AND (SELECT coalesce(sum(w.pending_approvals), 0) FROM runs w WHERE w.status = 'WAITING_FOR_APPROVAL')
                  <> (SELECT count(*) FROM approvals p WHERE p.status = 'PENDING')
              AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.run_id = r.id AND a.status = 'PENDING')
            -- The order is that of the index of runs that wait: nothing is waited for, so no other is needed.
            ORDER BY r.status_since, r.id LIMIT $1::int4 FOR NO KEY UPDATE OF r SKIP LOCKED
        ), inv AS (
            UPDATE tool_invocations i SET status = 'CANCELLED', updated_at = now() FROM own
            WHERE NOT own.answered AND i.run_id = own.id AND i.status IN ('PROPOSED','WAITING','AUTHORIZED') RETURNING i.id
        ), ses AS MATERIALIZED (
            SELECT s.id, own.id AS run_id, own.answered, CASE WHEN own.answered THEN 0 ELSE 1 END AS n
            FROM sessions s JOIN own ON own.session_id = s.id WHERE (SELECT count(*) FROM inv) >= 0 ORDER BY s.id FOR NO KEY UPDATE OF s
        ), num AS (
            UPDATE sessions s SET last_sequence = s.last_sequence + ses.n,
                updated_at = CASE WHEN ses.answered THEN s.updated_at ELSE now() END
            FROM ses WHERE s.id = ses.id RETURNING s.id AS session_id, ses.run_id, ses.answered, s.last_sequence
        ), upd AS (
            UPDATE runs r SET status = CASE WHEN num.answered THEN 'QUEUED' ELSE 'FAILED' END, pending_approvals = 0,
                resume_after = CASE WHEN num.answered THEN 'approval' END,
                failure_reason = CASE WHEN NOT num.answered THEN 'internal_error' END,
                failure_message = CASE WHEN NOT num.answered THEN $2::text END,
                failure_class = CASE WHEN NOT num.answered THEN 'waiting_for_nothing' END,
                failure_step = CASE WHEN NOT num.answered THEN nullif(r.step_count, 0) END,
                finished_at = CASE WHEN NOT num.answered THEN now() END,
                last_sequence = CASE WHEN NOT num.answered THEN num.last_sequence END,
                status_since = now(), updated_at = now()
            FROM num WHERE r.id = num.run_id
            RETURNING r.id AS run_id, num.session_id, num.answered, num.last_sequence AS sequence, r.failure_step, run_usage(r) AS usage
        ), dropped AS (
            DELETE FROM provider_continuations c USING upd WHERE c.run_id = upd.run_id AND NOT upd.answered
        ), ev AS (
            INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
            SELECT u.session_id, u.sequence, u.run_id, 'run.failed', 1, '{"failure":{"message":' || to_json($2::text)::text || ',"occurred_at":"'
                || to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '","reason":"internal_error"'
                || coalesce(',"step":' || u.failure_step, '') || '},"usage":' || u.usage || '}'
            FROM upd u WHERE NOT u.answered
        )
        SELECT upd.run_id, upd.session_id, upd.answered AS "requeued!", upd.sequence AS "last_sequence!" FROM upd
        "#,
        AT_MOST,
        FailureReason::InternalError.message(),
    )
    .fetch_all(conn)
    .await?;
    Ok(repaired)
}
