-- Calls of the product so far: all but NOTIFY's; those that wrote, which return a row for each run that they wrote (one, where runs
-- come one at a time) and none where they found nothing; and NOTIFY's.
SELECT coalesce(sum(calls) FILTER (WHERE query NOT LIKE '%pg_notify%'), 0)::int8,
    coalesce(sum(least(calls, rows)) FILTER (WHERE query ~ '(INSERT INTO|UPDATE|DELETE FROM)' AND query NOT LIKE '%pg_notify%'), 0)::int8,
    coalesce(sum(calls) FILTER (WHERE query LIKE '%pg_notify%'), 0)::int8
FROM pg_stat_statements
WHERE userid = 'product'::regrole AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND query !~ '^(BEGIN|SET|LISTEN|SELECT pg_catalog)'
