-- What people were asked, and what they answered.
CREATE TABLE approvals (
  id            uuid CONSTRAINT approvals_pkey PRIMARY KEY,
  run_id        uuid NOT NULL CONSTRAINT approvals_run_fkey REFERENCES runs,
  session_id    uuid NOT NULL,
  tenant_id     text COLLATE "C" NOT NULL,
  invocation_id uuid NOT NULL CONSTRAINT approvals_invocation_fkey REFERENCES tool_invocations,
  status        text NOT NULL DEFAULT 'PENDING' CONSTRAINT approvals_status_known CHECK (status IN (
                  'PENDING',
                  'APPROVED', 'DENIED',  -- by a person
                  'EXPIRED',             -- nobody answered in time; never approved afterwards
                  'CANCELLED'            -- the run ended first
                )),
  risk          text NOT NULL,
  expires_at    timestamptz NOT NULL,
  resolved_by   text,
  reason        text CONSTRAINT approvals_reason_len CHECK (length(reason) <= 1000),
  resolved_at   timestamptz,
  created_at    timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT approvals_resolved_iff_not_pending CHECK ((status = 'PENDING') = (resolved_at IS NULL))
);
CREATE INDEX approvals_run    ON approvals (run_id);
CREATE INDEX approvals_list   ON approvals (tenant_id, created_at DESC, id DESC);
CREATE INDEX approvals_expiry ON approvals (expires_at) WHERE status = 'PENDING'; -- maintenance
