-- What the counted submissions must have left behind: one key, one run and two events each.
SELECT (SELECT count(*) FROM runs WHERE status = 'QUEUED') AS runs,
       (SELECT count(*) FROM idempotency_keys) AS keys,
       (SELECT count(*) FROM events) AS events
