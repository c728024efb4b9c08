-- What a call and its approval were decided for. On resumption it is compared with what there is then; an approval of something
-- else is void. Nothing wrote to these two tables before this migration, so the columns need no defaults.
ALTER TABLE tool_invocations
  ADD COLUMN tool_version     text NOT NULL,
  ADD COLUMN schema_sha256    text NOT NULL,  -- of the input schema's canonical text
  ADD COLUMN side_effect      text NOT NULL,  -- classification at that time: what recovery goes by if the tool is gone
  ADD COLUMN idempotency      text NOT NULL CONSTRAINT tool_invocations_idempotency_known CHECK (idempotency IN (
                                'read_only', 'idempotent', 'conditionally_idempotent', 'non_idempotent'));

ALTER TABLE approvals
  ADD COLUMN action_summary text NOT NULL,    -- one line for people
  ADD COLUMN policy_reason  text NOT NULL,    -- why it is asked, for people; not which rule
  ADD COLUMN policy_version text NOT NULL,
  ADD COLUMN agent_version  text NOT NULL,
  ADD COLUMN scopes         text[] NOT NULL,  -- of the run
  ADD COLUMN requested_by   text COLLATE "C" NOT NULL,  -- the run's principal
  ADD COLUMN distinct_approver boolean NOT NULL,        -- `requested_by` may not approve it
  ADD CONSTRAINT approvals_once_per_call UNIQUE (invocation_id);

CREATE INDEX approvals_pending ON approvals (tenant_id, created_at DESC, id DESC) WHERE status = 'PENDING'; -- the inbox
