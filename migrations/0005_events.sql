-- The log: append-only, one dense sequence per session. The truth; everything else is derived from it or guards it.
CREATE TABLE events (
  session_id     uuid NOT NULL,   -- no foreign key: a trigger and a lock on the hot session row for each event; the appending statement holds that row anyway
  sequence       bigint NOT NULL CONSTRAINT events_sequence_positive CHECK (sequence > 0),
  run_id         uuid,            -- null in the session's own events
  type           text NOT NULL,   -- no CHECK: the closed list lives in core, and a new event is not a migration
  schema_version smallint NOT NULL,
  body           text NOT NULL    -- JSON object, compact, keys in code point order; goes over the wire as it is
                 CONSTRAINT events_body_bytes CHECK (octet_length(body) BETWEEN 2 AND 262144),
  created_at     timestamptz NOT NULL DEFAULT now(), -- of the statement's start: order by sequence, never by this
  CONSTRAINT events_pkey PRIMARY KEY (session_id, sequence), -- the only index, and the backstop against a wrong counter
  CONSTRAINT events_run_iff_not_session_event CHECK ((run_id IS NULL) = (type IN ('session.created','session.closed')))
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05); -- append-only: vacuum serves the visibility map
