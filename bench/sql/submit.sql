-- What a submission must do, as pgbench runs it: the statement of core/src/runs/store.rs with everything that does not
-- change from one submission to the next as a literal. Change both together.
--
-- Each submission needs a session of its own, since a session takes one unfinished run. The clients share a range of
-- sessions that is numbered densely: client c takes first + c, then first + c + clients, and so on, so that they never
-- meet and all of them write at about the same, growing place of every index, as UUIDv7 identifiers do. A number becomes an
-- identifier by one concatenation; parsing the text is what any text parameter costs. The key is pseudo-random, as the keys of
-- clients are, and pgbench's side makes it.
\set session :first + :turn * :clients + :client_id
\set turn :turn + 1
\set key hash(:session)
WITH ses AS MATERIALIZED (
    SELECT s.id, s.tenant_id, s.principal_id, (:run_prefix || :session::text)::uuid AS run_id
    FROM sessions s
    WHERE s.id = ('00000000-0000-7000-8000-' || :session::text)::uuid
      AND s.tenant_id = 'dev' AND s.principal_id = 'dev' AND s.status = 'ACTIVE'
    FOR NO KEY UPDATE
), key AS (
    INSERT INTO idempotency_keys (tenant_id, principal_id, key, request_sha256, run_id, expires_at)
    SELECT ses.tenant_id, ses.principal_id, :key::text, '\x6ddc7a06c3c83a6b8d9c4a3dba1cc3a9a4ee8ea0b0d39dd6d2a9ff5e72a1b0f1'::bytea, ses.run_id,
        now() + 86400::float8 * interval '1 second'
    FROM ses
    ON CONFLICT (tenant_id, principal_id, key) DO NOTHING
    RETURNING run_id
), num AS (
    UPDATE sessions s SET last_sequence = s.last_sequence + 2, title = coalesce(s.title, 'Calculate 12 times 9'), updated_at = now()
    FROM ses WHERE s.id = ses.id AND EXISTS (SELECT 1 FROM key)
    RETURNING s.id, s.tenant_id, s.principal_id, s.agent_id, s.agent_version, s.last_sequence - 1 AS first_sequence, ses.run_id
), run AS (
    INSERT INTO runs (id, session_id, tenant_id, principal_id, scopes, agent_id, agent_version, status, priority, metadata, traceparent,
        max_steps, max_model_calls, max_tool_calls, max_input_tokens, max_output_tokens, max_cost_usd, deadline_at, first_sequence)
    SELECT num.run_id, num.id, num.tenant_id, num.principal_id,
        '{session.read,session.write,run.read,run.write,run.cancel,approval.read,approval.resolve,artifact.read,artifact.write,agent.read,operator.read,demo.write}'::text[],
        num.agent_id, num.agent_version, 'QUEUED', 'INTERACTIVE', '{}', NULL,
        a.max_steps, a.max_model_calls, a.max_tool_calls, a.max_input_tokens, a.max_output_tokens, a.max_cost_usd,
        now() + a.deadline_seconds * interval '1 second', num.first_sequence
    FROM num JOIN agent_versions a ON a.agent_id = num.agent_id AND a.version = num.agent_version
    RETURNING id, session_id, first_sequence
), ev AS (
    INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
    SELECT run.session_id, run.first_sequence + e.k, run.id, e.type, 1, e.body
    FROM run CROSS JOIN (VALUES
        (0, 'user.message.created', '{"content":[{"text":"Calculate 12 times 9","type":"text"}]}'),
        (1, 'run.queued', '{"priority":"INTERACTIVE"}')) AS e(k, type, body)
)
SELECT EXISTS (SELECT 1 FROM ses) AS session_found, (SELECT min(first_sequence) FROM run) AS first_sequence/* notify */;
