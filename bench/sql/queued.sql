-- Queued no-op runs $1 up to $2, each in a session of its own, as submissions leave them. Numbers have twelve digits, and one is the
-- identifier of a run and of its session.
WITH ses AS (
    INSERT INTO sessions (id, tenant_id, principal_id, agent_id, agent_version, title, last_sequence)
    SELECT ('00000000-0000-7000-8000-' || number)::uuid, 'dev', 'dev', a.agent_id, a.version, 'noop', 2
    FROM agent_versions a CROSS JOIN generate_series($1::int8, $2::int8 - 1) AS number
    WHERE a.agent_id = 'bench'
    RETURNING id, tenant_id, principal_id, agent_id, agent_version
), run AS (
    INSERT INTO runs (id, session_id, tenant_id, principal_id, scopes, agent_id, agent_version, status, priority, max_steps,
        max_model_calls, max_tool_calls, deadline_at, first_sequence)
    SELECT ses.id, ses.id, ses.tenant_id, ses.principal_id, '{run.read,run.write}', ses.agent_id, ses.agent_version, 'QUEUED', 'INTERACTIVE',
        a.max_steps, a.max_model_calls, a.max_tool_calls, now() + a.deadline_seconds * interval '1 second', 1
    FROM ses JOIN agent_versions a ON a.agent_id = ses.agent_id AND a.version = ses.agent_version
)
INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
SELECT ses.id, e.k, ses.id, e.type, 1, e.body
FROM ses CROSS JOIN (VALUES
    (1, 'user.message.created', '{"content":[{"text":"noop","type":"text"}]}'),
    (2, 'run.queued', '{"priority":"INTERACTIVE"}')) AS e(k, type, body)
