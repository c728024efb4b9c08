-- Sessions $1 up to $2, fresh, of the principal of dev mode and the agent of the bench. Inserted, not created over
-- HTTP: a million creations are not what is measured. Numbers have twelve digits, so that number and identifier sort alike.
INSERT INTO sessions (id, tenant_id, principal_id, agent_id, agent_version)
SELECT ('00000000-0000-7000-8000-' || number)::uuid, 'dev', 'dev', a.agent_id, a.version
FROM (SELECT agent_id, version FROM agent_versions WHERE agent_id = 'bench' ORDER BY created_at DESC LIMIT 1) a,
     generate_series($1::int8, $2::int8 - 1) AS number
