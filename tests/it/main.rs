//! The integration tests: one binary, a private Postgres for the whole run, a fresh database for each test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod approvals_http;
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
mod pages;
mod runs_cancel;
mod runs_idempotency;
mod runs_limits;
mod runs_main_job;
mod runs_statements;
mod sessions_cli;
mod sessions_close;
mod sessions_delete;
mod sessions_retention;
mod sessions_stream;
mod sessions_transcript;
mod structure;
mod support;
mod terminal;
mod tools_main_job;
mod torture;
mod waiting;
