-- What a run has asked its user.
CREATE TABLE questions (
  id            uuid CONSTRAINT questions_pkey PRIMARY KEY,
  run_id        uuid NOT NULL CONSTRAINT questions_run_fkey REFERENCES runs,
  invocation_id uuid CONSTRAINT questions_invocation_fkey REFERENCES tool_invocations,
  question      text NOT NULL,
  choices       text,                    -- JSON list, or null: any text
  expires_at    timestamptz NOT NULL,
  status        text NOT NULL DEFAULT 'OPEN' CONSTRAINT questions_status_known CHECK (status IN (
                  'OPEN',
                  'ANSWERED',
                  'EXPIRED',             -- nobody answered in time
                  'CANCELLED'            -- the run ended first
                )),
  answer        text,                    -- canonical content; "the same answer again" compares these bytes
  created_at    timestamptz NOT NULL DEFAULT now(),
  closed_at     timestamptz,
  CONSTRAINT questions_answer_iff_answered CHECK ((status = 'ANSWERED') = (answer IS NOT NULL))
);
CREATE INDEX questions_run    ON questions (run_id);
CREATE INDEX questions_expiry ON questions (expires_at) WHERE status = 'OPEN';                  -- maintenance
CREATE UNIQUE INDEX questions_one_open_per_run ON questions (run_id) WHERE status = 'OPEN';
