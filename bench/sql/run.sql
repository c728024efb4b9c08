-- A run that nobody executes, as a claim leaves one: session $1, run $2, owner $3, four events. For logs that the bench writes.
WITH ses AS (
    INSERT INTO sessions (id, tenant_id, principal_id, agent_id, agent_version, last_sequence)
    SELECT $1, 'dev', 'dev', a.agent_id, a.version, 4 FROM agent_versions a WHERE a.agent_id = 'bench'
    RETURNING id, tenant_id, principal_id, agent_id, agent_version
), run AS (
    INSERT INTO runs (id, session_id, tenant_id, principal_id, scopes, agent_id, agent_version, status, priority, max_steps,
        max_model_calls, max_tool_calls, deadline_at, first_sequence, lease_owner, lease_epoch, started_at)
    SELECT $2, ses.id, ses.tenant_id, ses.principal_id, '{}', ses.agent_id, ses.agent_version, 'RUNNING', 'INTERACTIVE', 32,
        64, 128, now() + interval '1 day', 1, $3, 1, now()
    FROM ses
)
INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
SELECT ses.id, e.k, $2, e.type, 1, e.body
FROM ses CROSS JOIN (VALUES
    (1, 'user.message.created', '{"content":[{"text":"noop","type":"text"}]}'),
    (2, 'run.queued', '{"priority":"INTERACTIVE"}'),
    (3, 'run.claimed', '{}'),
    (4, 'run.started', '{}')) AS e(k, type, body)
