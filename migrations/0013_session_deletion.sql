-- Bytes whose rows are gone. Written in the statement that deletes the rows, so that no crash forgets them; removed once the
-- object store has deleted the bytes. Their key in the store follows from the three identifiers.
CREATE TABLE artifact_deletions (
  artifact_id uuid CONSTRAINT artifact_deletions_pkey PRIMARY KEY,
  session_id  uuid NOT NULL,
  tenant_id   text COLLATE "C" NOT NULL,
  due_at      timestamptz NOT NULL DEFAULT now()    -- later where the store has failed: what fails again and again holds nothing up
);
CREATE INDEX artifact_deletions_due ON artifact_deletions (due_at);          -- maintenance

-- The foreign key's check, for each call that is deleted.
CREATE INDEX questions_invocation ON questions (invocation_id);
