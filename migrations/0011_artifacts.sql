-- Bytes that a run produced. The bytes are in the object store, under a key that follows from these columns; the row is written
-- after them, so a row never lacks its bytes. Bytes without a row are collected by maintenance.
CREATE TABLE artifacts (
  id            uuid CONSTRAINT artifacts_pkey PRIMARY KEY,   -- that of the invocation that made it: a repeated call writes the same object
  session_id    uuid NOT NULL CONSTRAINT artifacts_session_fkey REFERENCES sessions,
  run_id        uuid NOT NULL CONSTRAINT artifacts_run_fkey REFERENCES runs,
  tenant_id     text COLLATE "C" NOT NULL,
  principal_id  text COLLATE "C" NOT NULL,
  name          text NOT NULL CONSTRAINT artifacts_name_len CHECK (length(name) BETWEEN 1 AND 255),
  media_type    text NOT NULL,
  sha256        text NOT NULL CONSTRAINT artifacts_sha256_form CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  size_bytes    bigint NOT NULL CONSTRAINT artifacts_size_nonneg CHECK (size_bytes >= 0),
  metadata      text NOT NULL DEFAULT '{}',                   -- canonical JSON
  created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX artifacts_run     ON artifacts (run_id);                       -- deletion with its run
CREATE INDEX artifacts_session ON artifacts (session_id, created_at DESC, id DESC);
