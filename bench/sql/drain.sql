-- Claim and finish, as pgbench runs them: a batch of queued runs becomes ours, and then it is completed. Two statements and two commits
-- for a batch, with the rows that a no-op run of the product leaves: the guards of core/src/execution/queue.rs and settle/append.rs, one
-- tenant, one class, no model in between.
WITH picked AS MATERIALIZED (
    SELECT r.id, r.session_id FROM runs r
    WHERE r.status = 'QUEUED' AND r.scheduled_for IS NULL AND r.priority = 'INTERACTIVE' AND r.tenant_id = 'dev'
    ORDER BY r.created_at NULLS FIRST, r.id NULLS FIRST LIMIT :batch FOR NO KEY UPDATE SKIP LOCKED
), ses AS MATERIALIZED (
    SELECT s.id, p.id AS run_id FROM sessions s JOIN picked p ON p.session_id = s.id ORDER BY s.id FOR NO KEY UPDATE OF s
), num AS (
    UPDATE sessions s SET last_sequence = s.last_sequence + 2 FROM ses WHERE s.id = ses.id
    RETURNING ses.run_id, s.id AS session_id, s.last_sequence
), upd AS (
    UPDATE runs r SET status = 'RUNNING', lease_owner = ('00000000-0000-7000-9000-' || lpad(:client_id::text, 12, '0'))::uuid,
        lease_epoch = r.lease_epoch + 1, started_at = coalesce(r.started_at, now()), status_since = now(), updated_at = now()
    FROM num WHERE r.id = num.run_id
    RETURNING r.id AS run_id, num.session_id, num.last_sequence
)
INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
SELECT u.session_id, u.last_sequence - 1 + e.k, u.run_id, e.type, 1, '{}'
FROM upd u CROSS JOIN (VALUES (0, 'run.claimed'), (1, 'run.started')) AS e(k, type);
WITH own AS MATERIALIZED (
    SELECT r.id AS run_id, r.session_id FROM runs r
    WHERE r.status = 'RUNNING' AND r.lease_owner = ('00000000-0000-7000-9000-' || lpad(:client_id::text, 12, '0'))::uuid
    ORDER BY r.id FOR NO KEY UPDATE OF r
), ses AS MATERIALIZED (
    SELECT s.id, own.run_id FROM sessions s JOIN own ON own.session_id = s.id ORDER BY s.id FOR NO KEY UPDATE OF s
), num AS (
    UPDATE sessions s SET last_sequence = s.last_sequence + 4, updated_at = now() FROM ses WHERE s.id = ses.id
    RETURNING ses.run_id, s.id AS session_id, s.last_sequence
), upd AS (
    UPDATE runs r SET status = 'COMPLETED', lease_owner = NULL, appends = r.appends + 2, step_count = 1, model_calls = 1,
        finished_at = now(), last_sequence = num.last_sequence, status_since = now(), updated_at = now()
    FROM num WHERE r.id = num.run_id
    RETURNING r.id AS run_id, num.session_id, num.last_sequence
)
INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
SELECT u.session_id, u.last_sequence - 3 + e.k, u.run_id, e.type, 1, e.body
FROM upd u CROSS JOIN (VALUES
    (0, 'model.request.started', '{"attempt":1,"model":"scripted","provider":"scripted","step":1}'),
    (1, 'model.response.completed', '{"attempt":1,"step":1}'),
    (2, 'assistant.message.completed', '{"content":[{"text":"done","type":"text"}],"message_index":0,"step":1}'),
    (3, 'run.completed', '{"usage":{}}')) AS e(k, type, body);
