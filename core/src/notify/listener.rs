//! Hearing hints, on a connection of its own that is never inside a transaction.

use std::time::Duration;

use sqlx::Executor;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};

use crate::db;
use crate::error::chain;
use crate::notify::Channel;

/// Wait before the first try to listen again, doubled up to the bound: no busy loop while the database is away.
const RECONNECT_WAIT: Duration = Duration::from_millis(250);
const RECONNECT_WAIT_MAX: Duration = Duration::from_secs(5);

/// Silence after which the connection is asked for a sign of life: where the way to the database is lost, nothing says so.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Longest wait for that sign, and for LISTEN.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What a listener hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// LISTEN is confirmed, for the first time or again: whatever was committed before may have gone unheard.
    Listening,
    /// The connection is gone: nothing is heard until `Listening`.
    Lost,
    Hint {
        channel: Channel,
        payload: String,
    },
}

#[derive(Debug)]
pub struct Listener {
    options: PgConnectOptions,
    channels: &'static [Channel],
    connected: Option<PgListener>,
    wait: Duration,
}

impl Listener {
    pub fn new(options: PgConnectOptions, channels: &'static [Channel]) -> Self {
        Self { options, channels, connected: None, wait: RECONNECT_WAIT }
    }

    /// The next thing that is heard; never ends. Whatever the connection fails with, it is built anew.
    pub async fn next(&mut self) -> Heard {
        loop {
            let Some(listener) = &mut self.connected else {
                match db::answered(ANSWER_TIMEOUT, self.connect()).await {
                    Ok(listener) => {
                        self.connected = Some(listener);
                        self.wait = RECONNECT_WAIT;
                        return Heard::Listening;
                    }
                    Err(error) => {
                        tracing::warn!(error = chain(&error), "cannot listen; trying again");
                        tokio::time::sleep(self.wait).await;
                        self.wait = (self.wait * 2).min(RECONNECT_WAIT_MAX);
                        continue;
                    }
                }
            };
            let Ok(received) = tokio::time::timeout(SILENCE_MAX, listener.try_recv()).await else {
                if db::answered(ANSWER_TIMEOUT, listener.execute("SELECT 1")).await.is_err() {
                    self.connected = None;
                    return Heard::Lost;
                }
                continue;
            };
            match received {
                Ok(Some(notification)) => {
                    // A channel that is not ours is heard by nobody: LISTEN names them.
                    if let Ok(channel) = notification.channel().parse() {
                        return Heard::Hint { channel, payload: notification.payload().to_owned() };
                    }
                }
                Ok(None) | Err(_) => {
                    self.connected = None;
                    return Heard::Lost;
                }
            }
        }
    }

    async fn connect(&self) -> Result<PgListener, sqlx::Error> {
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.listen_all(self.channels.iter().map(|channel| channel.as_str())).await?;
        Ok(listener)
    }
}
