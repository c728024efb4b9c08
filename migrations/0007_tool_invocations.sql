-- One row per tool call of a model. All rows of a run change only under that run's row lock, with an update of the run.
CREATE TABLE tool_invocations (
  id              uuid CONSTRAINT tool_invocations_pkey PRIMARY KEY,
  run_id          uuid NOT NULL CONSTRAINT tool_invocations_run_fkey REFERENCES runs,
  step            integer NOT NULL,
  call_index      integer NOT NULL,      -- place in the turn, from 0
  call_id         text NOT NULL,         -- the provider's, byte for byte
  tool_name       text NOT NULL,
  arguments       text NOT NULL,         -- canonical JSON
  idempotency_key text NOT NULL CONSTRAINT tool_invocations_key_form CHECK (idempotency_key ~ '^[0-9a-f]{64}$'), -- handed to services that take one
  status          text NOT NULL CONSTRAINT tool_invocations_status_known CHECK (status IN (
                    'PROPOSED',          -- the model asked for it
                    'WAITING',           -- for an approval
                    'AUTHORIZED',        -- intent is on record, nothing has been sent
                    'RUNNING',           -- may have touched the world
                    'COMPLETED', 'FAILED', 'DENIED', 'CANCELLED',
                    'UNCERTAIN'          -- an effect may have happened and nobody can know
                  )),
  effect_sent_at  timestamptz,           -- the watermark, set before anything leaves
  created_at      timestamptz NOT NULL DEFAULT now(),
  updated_at      timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT tool_invocations_key_once UNIQUE (idempotency_key)
);
CREATE INDEX tool_invocations_run ON tool_invocations (run_id, step, call_index); -- a run's calls in order
