-- The order of a claim, written as no other index has it: read backwards, an index for lists gives (created_at, id) too, and beside
-- a table that was analyzed while most of its runs were queued the planner took that one, to walk through all that have ended since.
DROP INDEX runs_queued;
CREATE INDEX runs_queued ON runs (priority, tenant_id, created_at NULLS FIRST, id NULLS FIRST) WHERE status = 'QUEUED' AND scheduled_for IS NULL; -- claim: one probe per waiting tenant
