-- The durable execution of one user message. This table is also the queue.
CREATE TABLE runs (
  id            uuid CONSTRAINT runs_pkey PRIMARY KEY,
  session_id    uuid NOT NULL CONSTRAINT runs_session_fkey REFERENCES sessions,
  parent_run_id uuid,                                    -- the run that started this one as its child; null today
  tenant_id     text COLLATE "C" NOT NULL,               -- copy of the session's: the queue's index and the cap need it
  principal_id  text COLLATE "C" NOT NULL,               -- copy of the session's: the owner's list needs it
  scopes        text[] NOT NULL,                         -- of the submitter, at submission; tools are checked against these
  agent_id      text COLLATE "C" NOT NULL,
  agent_version text COLLATE "C" NOT NULL,
  status        text NOT NULL CONSTRAINT runs_status_known CHECK (status IN (
                  'QUEUED',                              -- waits for a worker, or for scheduled_for
                  'RUNNING',                             -- a worker holds its lease
                  'WAITING_FOR_APPROVAL',                -- suspended until people have answered
                  'WAITING_FOR_USER',                    -- suspended until the user has answered a question
                  'COMPLETED', 'FAILED', 'CANCELLED'     -- terminal
                )),
  priority      text NOT NULL CONSTRAINT runs_priority_known CHECK (priority IN (
                  'INTERACTIVE',                         -- somebody waits for the answer
                  'ASYNC',                               -- nobody waits
                  'MAINTENANCE'                          -- the system's own; clients may not ask for it
                )),
  metadata      text NOT NULL DEFAULT '{}' CONSTRAINT runs_metadata_bytes CHECK (octet_length(metadata) <= 8192),
  traceparent   text,                                    -- whole header, so that the worker's spans join the submitter's trace

  -- Limits, clamped to the agent's at submission.
  max_steps integer NOT NULL, max_model_calls integer NOT NULL, max_tool_calls integer NOT NULL,
  max_input_tokens bigint, max_output_tokens bigint, max_cost_usd numeric(20,10),
  deadline_at   timestamptz NOT NULL,                    -- computed once; waiting counts

  -- Counters: totals of the fold over the run's events, written with them.
  step_count    integer NOT NULL DEFAULT 0,
  input_tokens  bigint NOT NULL DEFAULT 0, cached_input_tokens bigint NOT NULL DEFAULT 0, cache_write_input_tokens bigint NOT NULL DEFAULT 0,
  output_tokens bigint NOT NULL DEFAULT 0, reasoning_tokens bigint NOT NULL DEFAULT 0,
  model_calls   integer NOT NULL DEFAULT 0, tool_calls integer NOT NULL DEFAULT 0,
  cost_usd      numeric(20,10),                          -- null: no charge yet, or some charged call was unpriced

  -- Runs of a session never overlap: a run's events are this range, so events need no index by run.
  first_sequence bigint NOT NULL,
  last_sequence  bigint,                                 -- of the terminal event

  lease_owner   uuid,                                    -- no foreign key: it would lock the worker's row at every claim
  lease_epoch   integer NOT NULL DEFAULT 0,              -- number of claims; fences
  lease_losses  integer NOT NULL DEFAULT 0,              -- expiries only
  appends       integer NOT NULL DEFAULT 0,              -- number of writes by workers: a repeated write names the old value and writes nothing
  scheduled_for timestamptz,                             -- not due before; null: due. Outside the queue's index until the sweep clears it
  resume_after  text CONSTRAINT runs_resume_after_known CHECK (resume_after IN (
                  'approval', 'input',                   -- people have answered
                  'lease_expired',                       -- the worker before was lost
                  'handed_back'                          -- the worker before shut down
                )),                                      -- the cause, from re-queue to claim, for run.resumed
  pending_approvals integer NOT NULL DEFAULT 0,          -- a counter: NOT EXISTS(pending) under two answers at once leaves the run waiting for ever
  status_since  timestamptz NOT NULL DEFAULT now(),
  cancel_requested_at timestamptz, cancel_requested_by text,
  cancel_observed_at  timestamptz,                       -- settled is finished_at

  failure_reason text CONSTRAINT runs_failure_reason_known CHECK (failure_reason IN (
                  'lease_lost_too_often', 'budget_exceeded', 'deadline_exceeded', 'max_steps_exceeded', 'tool_loop_detected',
                  'repeated_denial', 'approval_expired', 'input_deadline_exceeded', 'context_overflow', 'model_permanent_error',
                  'model_protocol_error', 'empty_model_turn', 'authorization_error', 'child_run_failed', 'internal_error')),
  failure_message text,                                  -- fixed wording per reason
  failure_step    integer,
  failure_class   text,                                  -- for operators; never on the wire

  created_at timestamptz NOT NULL DEFAULT now(), started_at timestamptz, finished_at timestamptz,
  updated_at timestamptz NOT NULL DEFAULT now(),

  CONSTRAINT runs_lease_iff_running          CHECK ((status = 'RUNNING') = (lease_owner IS NOT NULL)),
  CONSTRAINT runs_finished_iff_terminal      CHECK ((status IN ('COMPLETED','FAILED','CANCELLED')) = (finished_at IS NOT NULL)),
  CONSTRAINT runs_last_sequence_iff_terminal CHECK ((finished_at IS NULL) = (last_sequence IS NULL)),
  CONSTRAINT runs_failure_iff_failed         CHECK ((status = 'FAILED') = (failure_reason IS NOT NULL)),
  CONSTRAINT runs_pending_iff_waiting        CHECK ((status = 'WAITING_FOR_APPROVAL') = (pending_approvals > 0)),
  CONSTRAINT runs_scheduled_only_queued      CHECK (scheduled_for IS NULL OR status = 'QUEUED'),
  CONSTRAINT runs_resume_cause_iff_requeued  CHECK ((status = 'QUEUED' AND started_at IS NOT NULL) = (resume_after IS NOT NULL)),
  CONSTRAINT runs_started_when_claimed       CHECK (status <> 'RUNNING' OR started_at IS NOT NULL),
  CONSTRAINT runs_cancel_order               CHECK (cancel_observed_at IS NULL OR cancel_requested_at IS NOT NULL),
  CONSTRAINT runs_cancel_not_parked          CHECK (cancel_requested_at IS NULL OR status NOT IN ('WAITING_FOR_APPROVAL','WAITING_FOR_USER')), -- nobody would ever see the request
  CONSTRAINT runs_counters_nonneg            CHECK (step_count >= 0 AND lease_epoch >= 0 AND lease_losses >= 0 AND appends >= 0 AND pending_approvals >= 0),
  CONSTRAINT runs_sequences_ordered          CHECK (first_sequence > 0 AND last_sequence >= first_sequence)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

-- A step touches counters, appends and updated_at: none of them is in any index or index predicate, so it stays HOT.
CREATE UNIQUE INDEX runs_one_unfinished_per_session ON runs (session_id) WHERE finished_at IS NULL; -- a violation by this name: the session is busy
CREATE INDEX runs_queued         ON runs (priority, tenant_id, created_at, id) WHERE status = 'QUEUED' AND scheduled_for IS NULL; -- claim: one probe per waiting tenant
CREATE INDEX runs_due            ON runs (scheduled_for) WHERE status = 'QUEUED' AND scheduled_for IS NOT NULL; -- sweep of delayed re-queues
CREATE INDEX runs_running_owner  ON runs (lease_owner) WHERE status = 'RUNNING';                 -- heartbeat, sweep
CREATE INDEX runs_running_tenant ON runs (tenant_id) WHERE status = 'RUNNING';                   -- the tenant's cap
CREATE INDEX runs_deadline       ON runs (deadline_at) WHERE status IN ('QUEUED','WAITING_FOR_APPROVAL','WAITING_FOR_USER'); -- runs that nobody executes
CREATE INDEX runs_list_owner     ON runs (tenant_id, principal_id, created_at DESC, id DESC);    -- the owner's list
CREATE INDEX runs_list_tenant    ON runs (tenant_id, created_at DESC, id DESC);                  -- the operator's list
CREATE INDEX runs_list_session   ON runs (session_id, created_at DESC, id DESC);                 -- a session's runs, its last run, its deletion

-- The one place in SQL that writes a usage object: keys in code point order, no white space. A test compares it with
-- core's serializer byte for byte.
CREATE FUNCTION run_usage(r runs) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT '{"cache_write_input_tokens":' || r.cache_write_input_tokens || ',"cached_input_tokens":' || r.cached_input_tokens
      || ',"cost_usd":' || coalesce('"' || trim_scale(r.cost_usd) || '"', 'null') || ',"input_tokens":' || r.input_tokens
      || ',"model_calls":' || r.model_calls || ',"output_tokens":' || r.output_tokens
      || ',"reasoning_tokens":' || r.reasoning_tokens || ',"tool_calls":' || r.tool_calls || '}'
$$;
