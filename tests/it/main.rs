//! The integration tests: one binary, a private Postgres for the whole run, a fresh database for each test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod approvals_expiry;
mod approvals_http;
mod approvals_races;
mod artifacts;
mod chaos;
mod dev;
mod events_append;
mod events_cut;
mod events_listen;
mod events_order;
mod events_proxy;
mod events_restart;
mod events_stream;
mod events_wire;
mod execution_fencing;
mod execution_fold;
mod execution_kill;
mod migrations;
mod notifications_off;
mod questions;
mod queue_cases;
mod runs_cancel;
mod runs_idempotency;
mod runs_limits;
mod runs_main_job;
mod runs_reading;
mod runs_statements;
mod server_caps;
mod server_cases;
mod server_connections;
mod server_database;
mod server_hostile;
mod server_idempotency;
mod server_wire;
mod structure;
mod support;
mod terminal;
mod tools_main_job;
mod torture;
mod waiting;
