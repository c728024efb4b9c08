-- Claims so far, and the milliseconds that they took, planning included.
SELECT coalesce(sum(calls), 0)::int8, coalesce(sum(total_plan_time + total_exec_time), 0)::float8
FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND query LIKE '%cls AS MATERIALIZED%'
