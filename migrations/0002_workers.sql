-- One row per worker process that ever registered. Liveness belongs to the process, not to the run: one update renews
-- every run that the process owns.
CREATE TABLE workers (
  id          uuid CONSTRAINT workers_pkey PRIMARY KEY,  -- a new one at every process start; never reused
  started_at  timestamptz NOT NULL DEFAULT now(),
  renewed_at  timestamptz NOT NULL DEFAULT now(),        -- shown to people as worker_seen_at
  expires_at  timestamptz NOT NULL,
  dead        boolean NOT NULL DEFAULT false,            -- one way; a value of its own, since no client decodes '-infinity'
  hostname    text NOT NULL,
  pid         integer NOT NULL,
  version     text NOT NULL,
  -- "no worker for this class" is answered from these.
  slots_interactive integer NOT NULL,
  slots_async       integer NOT NULL,
  slots_maintenance integer NOT NULL,
  slots_shared      integer NOT NULL,
  CONSTRAINT workers_expiry_after_start CHECK (expires_at >= started_at)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
-- No index but the key: the table is tiny, and every renewal stays HOT.
