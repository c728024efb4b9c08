-- Maintenance looks for runs that wait for nothing; there may be very many that wait, and rightly so.
CREATE INDEX runs_waiting ON runs (status_since, id) WHERE status = 'WAITING_FOR_APPROVAL';
