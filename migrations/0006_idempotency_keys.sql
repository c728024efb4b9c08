-- What a key has created. Written in the statement that creates it, so a key never exists without its resource.
CREATE TABLE idempotency_keys (
  tenant_id      text COLLATE "C" NOT NULL,
  principal_id   text COLLATE "C" NOT NULL,
  key            text COLLATE "C" NOT NULL CONSTRAINT idempotency_keys_key_form CHECK (key ~ '^[!-~]{1,255}$'),
  request_sha256 bytea NOT NULL CONSTRAINT idempotency_keys_sha256_bytes CHECK (octet_length(request_sha256) = 32), -- of method, path and canonical body
  session_id     uuid,            -- what was created: exactly one of the two.
  run_id         uuid,            -- No foreign keys: a key may outlive its session, and then answers 404
  created_at     timestamptz NOT NULL DEFAULT now(),
  expires_at     timestamptz NOT NULL,
  CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, principal_id, key),
  CONSTRAINT idempotency_keys_one_resource CHECK (num_nonnulls(session_id, run_id) = 1)
);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at); -- maintenance
