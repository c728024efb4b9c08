-- One row per call of a model: what was held for it, and then what it came to. All rows of a run change only under that run's row
-- lock, with an update of the run; the run's counters are their sums.
CREATE TABLE model_calls (
  run_id      uuid NOT NULL CONSTRAINT model_calls_run_fkey REFERENCES runs,
  step        integer NOT NULL,
  attempt     integer NOT NULL,              -- within the step, from 1
  provider    text NOT NULL,                 -- its name in the configuration
  model       text NOT NULL,                 -- its name at the provider

  -- Cached and written are parts of the input, reasoning of the output.
  input_tokens bigint NOT NULL, cached_input_tokens bigint NOT NULL DEFAULT 0, cache_write_input_tokens bigint NOT NULL DEFAULT 0,
  output_tokens bigint NOT NULL, reasoning_tokens bigint NOT NULL DEFAULT 0,

  -- As they were when the call was begun: US dollars for a million tokens. Null: unpriced.
  input_price numeric(20,10), cached_input_price numeric(20,10), cache_write_input_price numeric(20,10), output_price numeric(20,10),
  cost_usd    numeric(20,10),
  cost_source text NOT NULL CONSTRAINT model_calls_cost_source_known CHECK (cost_source IN (
                'reported',                  -- the provider said how many tokens
                'estimated',                 -- it did not: by what was sent and received
                'held',                      -- nobody knows what became of it, or not yet: the most that it may have cost
                'unpriced'                   -- no price; the tokens are known as well as they can be
              )),
  provider_request_id text CONSTRAINT model_calls_request_id_len CHECK (length(provider_request_id) <= 255), -- for whoever asks the provider about it
  started_at  timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,                   -- null: under way, or cut off by a crash, and charged at what was held
  CONSTRAINT model_calls_pkey PRIMARY KEY (run_id, step, attempt),
  CONSTRAINT model_calls_priced_iff_cost  CHECK (num_nulls(input_price, cached_input_price, cache_write_input_price, output_price, cost_usd) IN (0, 5)),
  CONSTRAINT model_calls_unpriced_iff_not CHECK ((cost_source = 'unpriced') = (cost_usd IS NULL)),
  CONSTRAINT model_calls_tokens_nonneg    CHECK (least(input_tokens, cached_input_tokens, cache_write_input_tokens, output_tokens, reasoning_tokens) >= 0)
) WITH (fillfactor = 60); -- each row is updated once, and no index holds what that changes

-- What a provider needs back with the next request of a run, verbatim: the one part of a run's state that may not be in its log. Gone
-- with the end of the run.
CREATE TABLE provider_continuations (
  run_id uuid NOT NULL CONSTRAINT provider_continuations_run_fkey REFERENCES runs,
  step   integer NOT NULL,                   -- of the turn that it came with
  bytes  bytea NOT NULL CONSTRAINT provider_continuations_bytes_len CHECK (octet_length(bytes) <= 4194304),
  CONSTRAINT provider_continuations_pkey PRIMARY KEY (run_id, step)
);
