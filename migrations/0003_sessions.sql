-- One conversation between one principal and one agent version. Its row orders all writers of its log.
CREATE TABLE sessions (
  id            uuid CONSTRAINT sessions_pkey PRIMARY KEY,
  tenant_id     text COLLATE "C" NOT NULL CONSTRAINT sessions_tenant_len CHECK (length(tenant_id) BETWEEN 1 AND 255),
  principal_id  text COLLATE "C" NOT NULL CONSTRAINT sessions_principal_len CHECK (length(principal_id) BETWEEN 1 AND 255),
  agent_id      text COLLATE "C" NOT NULL,
  agent_version text COLLATE "C" NOT NULL,               -- resolved at creation and frozen
  status        text NOT NULL DEFAULT 'ACTIVE'
                CONSTRAINT sessions_status_known CHECK (status IN (
                  'ACTIVE',                              -- takes messages
                  'CLOSED'                               -- read only, for ever
                )),
  title         text CONSTRAINT sessions_title_len CHECK (length(title) <= 64), -- of the first user message
  metadata      text NOT NULL DEFAULT '{}' CONSTRAINT sessions_metadata_bytes CHECK (octet_length(metadata) <= 8192),
  last_sequence bigint NOT NULL DEFAULT 0                -- number of the newest event; taken under this row's lock, so
                CONSTRAINT sessions_last_sequence_nonneg CHECK (last_sequence >= 0), -- commit order is sequence order
  created_at    timestamptz NOT NULL DEFAULT now(),
  updated_at    timestamptz NOT NULL DEFAULT now(),      -- moves at submission and at the end of a run only
  CONSTRAINT sessions_agent_version_fkey FOREIGN KEY (agent_id, agent_version) REFERENCES agent_versions
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Lists, newest first. No index may contain last_sequence or updated_at: the counter's updates must stay HOT.
CREATE INDEX sessions_list_owner  ON sessions (tenant_id, principal_id, created_at DESC, id DESC); -- the owner's list
CREATE INDEX sessions_list_tenant ON sessions (tenant_id, created_at DESC, id DESC);               -- the operator's list
