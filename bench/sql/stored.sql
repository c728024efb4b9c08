-- Completed no-op runs $1 up to $2, ten in a session, each with its key and its eight events, as if they had come over a month. $1 and $2
-- are multiples of ten. Numbers become identifiers of twelve digits.
WITH agent AS MATERIALIZED (
    SELECT a.agent_id, a.version FROM agent_versions a WHERE a.agent_id = 'bench'
), ses AS (
    INSERT INTO sessions (id, tenant_id, principal_id, agent_id, agent_version, title, last_sequence, created_at, updated_at)
    SELECT ('00000000-0000-7000-8000-' || 500000000000 + n)::uuid, 'dev', 'dev', agent.agent_id, agent.version, 'noop', 80, t.at, t.at
    FROM agent CROSS JOIN generate_series($1::int8 / 10, $2::int8 / 10 - 1) AS n
        CROSS JOIN LATERAL (SELECT now() - interval '30 days' + n * interval '25 seconds' AS at) t
), run AS (
    INSERT INTO runs (id, session_id, tenant_id, principal_id, scopes, agent_id, agent_version, status, priority, max_steps,
        max_model_calls, max_tool_calls, deadline_at, step_count, model_calls, first_sequence, last_sequence, lease_epoch, appends,
        created_at, started_at, finished_at)
    SELECT ('00000000-0000-7000-8000-' || 600000000000 + n)::uuid, ('00000000-0000-7000-8000-' || 500000000000 + n / 10)::uuid, 'dev', 'dev',
        '{run.read,run.write}', agent.agent_id, agent.version, 'COMPLETED', 'INTERACTIVE', 32, 64, 128, t.at + interval '2 days', 1, 1,
        n % 10 * 8 + 1, n % 10 * 8 + 8, 1, 2, t.at, t.at, t.at
    FROM agent CROSS JOIN generate_series($1::int8, $2::int8 - 1) AS n
        CROSS JOIN LATERAL (SELECT now() - interval '30 days' + n * interval '2.5 seconds' AS at) t
), key AS (
    INSERT INTO idempotency_keys (tenant_id, principal_id, key, request_sha256, run_id, created_at, expires_at)
    SELECT 'dev', 'dev', md5(n::text), sha256(''), ('00000000-0000-7000-8000-' || 600000000000 + n)::uuid, now(), now() + interval '1 day'
    FROM generate_series($1::int8, $2::int8 - 1) AS n
)
INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
SELECT ('00000000-0000-7000-8000-' || 500000000000 + n / 10)::uuid, n % 10 * 8 + e.k, ('00000000-0000-7000-8000-' || 600000000000 + n)::uuid,
    e.type, 1, e.body
FROM generate_series($1::int8, $2::int8 - 1) AS n CROSS JOIN (VALUES
    (1, 'user.message.created', '{"content":[{"text":"noop","type":"text"}]}'),
    (2, 'run.queued', '{"priority":"INTERACTIVE"}'),
    (3, 'run.claimed', '{}'),
    (4, 'run.started', '{}'),
    (5, 'model.request.started', '{"attempt":1,"model":"scripted","provider":"scripted","step":1}'),
    (6, 'model.response.completed', '{"attempt":1,"step":1}'),
    (7, 'assistant.message.completed', '{"content":[{"text":"done","type":"text"}],"message_index":0,"step":1}'),
    (8, 'run.completed', '{"usage":{}}')) AS e(k, type, body)
