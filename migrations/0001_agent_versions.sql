-- What an agent is, frozen. Inserted when absent at the start of an API or a worker; never updated, so that processes may
-- cache a version for ever and a deploy strands no old session.
CREATE TABLE agent_versions (
  agent_id          text COLLATE "C" NOT NULL
                    CONSTRAINT agent_versions_agent_id_form CHECK (agent_id ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
  version           text COLLATE "C" NOT NULL
                    CONSTRAINT agent_versions_version_form CHECK (version ~ '^[A-Za-z0-9._+-]{1,64}$'),
  definition        text NOT NULL,           -- canonical JSON of the agent's file
  sha256            text NOT NULL            -- of the definition; the same version with another hash refuses to start
                    CONSTRAINT agent_versions_sha256_form CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  -- Limits are columns, not only part of the definition, so that the submission clamps a request's limits in SQL.
  max_steps         integer NOT NULL,
  max_model_calls   integer NOT NULL,
  max_tool_calls    integer NOT NULL,
  max_input_tokens  bigint,                  -- null: no limit
  max_output_tokens bigint,                  -- null: no limit
  max_cost_usd      numeric(20,10),          -- null: no limit
  deadline_seconds  integer NOT NULL,
  created_at        timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT agent_versions_pkey PRIMARY KEY (agent_id, version),
  CONSTRAINT agent_versions_limits_positive
    CHECK (max_steps > 0 AND max_model_calls > 0 AND max_tool_calls >= 0 AND deadline_seconds > 0)
);
