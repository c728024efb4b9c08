-- What the journal's statement does for one run ($1, owner $2, writes so far $3): fence, counter, one update of the run, events of
-- types $4 with bodies $5, and with them its end where $6 says so. See core/src/execution/settle/append.rs.
WITH ev AS MATERIALIZED (
    SELECT e.type, e.body, e.k FROM unnest($4::text[], $5::text[]) WITH ORDINALITY AS e(type, body, k)
), own AS MATERIALIZED (
    SELECT r.id AS run_id, r.session_id
    FROM runs r
    WHERE r.id = $1 AND r.status = 'RUNNING' AND r.lease_owner = $2 AND r.lease_epoch = 1 AND r.appends = $3
    FOR NO KEY UPDATE OF r
), ses AS MATERIALIZED (
    SELECT s.id, own.run_id FROM sessions s JOIN own ON own.session_id = s.id FOR NO KEY UPDATE OF s
), num AS (
    UPDATE sessions s SET last_sequence = s.last_sequence + cardinality($4),
        updated_at = CASE WHEN $6::text IS NULL THEN s.updated_at ELSE now() END
    FROM ses WHERE s.id = ses.id
    RETURNING ses.run_id, s.id AS session_id, s.last_sequence - cardinality($4) AS base, s.last_sequence AS top
), upd AS (
    UPDATE runs r SET appends = r.appends + 1, updated_at = now(),
        status = coalesce($6::text, r.status),
        lease_owner = CASE WHEN $6::text IS NULL THEN r.lease_owner END,
        status_since = CASE WHEN $6::text IS NULL THEN r.status_since ELSE now() END,
        finished_at = CASE WHEN $6::text IS NOT NULL THEN now() END,
        last_sequence = CASE WHEN $6::text IS NOT NULL THEN num.top END
    FROM num WHERE r.id = num.run_id
    RETURNING r.id AS run_id, num.top
), ins AS (
    INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
    SELECT num.session_id, num.base + ev.k, num.run_id, ev.type, 1, ev.body FROM num CROSS JOIN ev
)
SELECT upd.top FROM upd
