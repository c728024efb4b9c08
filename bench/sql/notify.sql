-- The wake-up of a process's own connection, as core/src/notify/sender.rs sends it.
SELECT count(pg_notify(h.channel, h.payload)) FROM unnest($1::text[], $2::text[]) AS h(channel, payload)
