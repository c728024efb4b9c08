-- The seconds from the first claim of the runs from number $1 on to the last end. Both are the beginnings of statements.
SELECT extract(epoch FROM max(finished_at) - min(started_at))::float8 FROM runs
WHERE id >= ('00000000-0000-7000-8000-' || $1::int8)::uuid AND id < '00000000-0000-7000-9000-000000000000'::uuid
