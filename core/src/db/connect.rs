//! Connections with the bounds that every statement of ours lives under.

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgPool};

use crate::config::{self, Notifications};
use crate::error::Error;
use crate::notify::Ways;

/// Longest wait for a connection of the pool before a caller is told to come back: 503, never a hang.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that was not used for so long is asked whether it is still one before it is used again. Busy ones notice a
/// restart of the server by their own statements.
const RESTED: Duration = Duration::from_secs(1);

/// Who is connected, as `pg_stat_activity` shows it.
#[derive(Debug, Clone, Copy)]
pub enum Role {
    Api,
    Worker,
    Command,
}

impl Role {
    const fn application_name(self) -> &'static str {
        match self {
            Self::Api => "baton api",
            Self::Worker => "baton worker",
            Self::Command => "agentctl",
        }
    }

    /// A worker asks the same few questions for ever. To the planner a plan of its own for each claim looks cheaper than one for
    /// all of them; making it takes three times as long as the claim.
    const fn plan_cache_mode(self) -> &'static str {
        match self {
            Self::Worker => "force_generic_plan",
            Self::Api | Self::Command => "auto",
        }
    }
}

/// How to connect, for the pool and for the connections beside it (listen, notify, renew).
///
/// # Errors
/// `Malformed` where the URL is missing or is not one of Postgres. The message never repeats it: it may hold a password.
pub fn options(config: &config::Database, role: Role) -> Result<PgConnectOptions, Error> {
    let url =
        config.url.as_deref().ok_or_else(|| Error::malformed("database.url", "set DATABASE_URL, or start `agentctl dev`"))?;
    options_of("database.url", url, config, role)
}

/// How to connect to hear what is notified, and to notify; none where notifications are off.
///
/// # Errors
/// As [`options`].
pub fn ways(config: &config::Database, role: Role) -> Result<Option<Ways>, Error> {
    let notify = options(config, role)?;
    let listen = match config.listen_url.as_deref() {
        Some(url) => options_of("database.listen_url", url, config, role)?,
        None => notify.clone(),
    };
    Ok((config.notifications == Notifications::On).then_some(Ways { listen, notify }))
}

fn options_of(name: &str, url: &str, config: &config::Database, role: Role) -> Result<PgConnectOptions, Error> {
    let options = PgConnectOptions::from_str(url).map_err(|_| Error::malformed(name, "is not a Postgres URL"))?;
    let milliseconds = |bound: Duration| bound.as_millis().to_string();
    Ok(options.application_name(role.application_name()).options([
        ("statement_timeout", milliseconds(config.statement_timeout)),
        // Statements are short. Where tables are large the planner's costs call for compiling the claim all the same, which
        // takes thirty times as long as the claim.
        ("jit", "off".into()),
        ("idle_in_transaction_session_timeout", milliseconds(config.idle_in_transaction_session_timeout)),
        ("plan_cache_mode", role.plan_cache_mode().into()),
    ]))
}

/// Opens the pool, lazily: a server may start before its database and says so when asked whether it is ready.
///
/// # Errors
/// As [`options`].
pub fn connect(config: &config::Database, role: Role) -> Result<PgPool, Error> {
    let pool = PgPoolOptions::new()
        .max_connections(config.pool)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A ping before each use is a round trip on every statement. One that has rested may have lost its server meanwhile.
        .test_before_acquire(false)
        .before_acquire(|connection, known| {
            Box::pin(async move {
                if known.idle_for >= RESTED {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .connect_lazy_with(options(config, role)?);
    Ok(pool)
}
