-- Maintenance compares how many approvals runs wait for with how many are open; there may be very many, and rightly so.
CREATE INDEX runs_waiting ON runs (status_since, id) INCLUDE (pending_approvals) WHERE status = 'WAITING_FOR_APPROVAL';
