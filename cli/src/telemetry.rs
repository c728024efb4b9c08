//! Logs: to stderr, text on a terminal and JSON otherwise. stdout is for results.

use std::io::{IsTerminal, stderr};
use std::panic::{self, PanicHookInfo};

use tracing_subscriber::EnvFilter;

/// Servers say what they do; commands only what goes wrong. `RUST_LOG` says otherwise. What Postgres remarks is not news, nor is
/// a pooled connection that went away: whoever needs one says so.
pub(crate) fn start(is_server: bool) {
    let quiet = if is_server { "info,sqlx::postgres::notice=warn,sqlx_core::pool=error" } else { "error" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(quiet));
    let logs = tracing_subscriber::fmt().with_writer(stderr).with_env_filter(filter);
    if stderr().is_terminal() {
        logs.with_target(false).with_ansi(std::env::var_os("NO_COLOR").is_none()).init();
    } else {
        logs.json().flatten_event(true).with_current_span(false).init(); // the list has it
    }
    if is_server {
        panic::set_hook(Box::new(log_panic));
    }
}

/// Where it happened, and not what it said: a panic's words may repeat what people, models or the database said.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(place, "panicked");
}
