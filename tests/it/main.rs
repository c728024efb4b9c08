//! The integration tests: one binary, a private Postgres for the whole run, a fresh database for each test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod execution_fold;
mod migrations;
mod runs_limits;
mod runs_main_job;
mod runs_statements;
mod structure;
mod support;
