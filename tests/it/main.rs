//! The integration tests: one binary, a private Postgres for the whole run, a fresh database for each test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod runs_main_job;
mod support;
