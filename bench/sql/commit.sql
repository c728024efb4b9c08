-- The least that a commit can flush: one message in the log, no table.
SELECT pg_logical_emit_message(true, 'bench', '');
