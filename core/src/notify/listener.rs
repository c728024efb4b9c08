//! Hearing hints, on a connection of its own that is never inside a transaction.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{ConnectOptions, Executor};

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

/// The channel of processes that listen to themselves.
const SELF_TEST: &str = "baton_self_test";

/// Longest wait for a notification of our own. It takes a millisecond where it comes at all.
const SELF_TEST_TIMEOUT: Duration = Duration::from_secs(2);

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

/// How to connect to hear, and how everybody connects who notifies. The same, unless a pooler is in between.
#[derive(Debug, Clone)]
pub struct Ways {
    pub listen: PgConnectOptions,
    pub notify: PgConnectOptions,
}

#[derive(Debug)]
pub struct Listener {
    ways: Ways,
    channels: &'static [Channel],
    connected: Option<PgListener>,
    wait: Duration,
    /// Whether a notification of our own came, the first time that we listened.
    hears_itself: Option<bool>,
}

impl Listener {
    pub fn new(ways: Ways, channels: &'static [Channel]) -> Self {
        Self { ways, channels, connected: None, wait: RECONNECT_WAIT, hears_itself: None }
    }

    /// LISTEN was confirmed, and what is notified does not come: everything works by polling. None: not known yet.
    pub fn is_deaf(&self) -> Option<bool> {
        self.hears_itself.map(|hears| !hears)
    }

    /// The next thing that is heard; never ends. Whatever the connection fails with, it is built anew.
    pub async fn next(&mut self) -> Heard {
        loop {
            let Some(listener) = &mut self.connected else {
                match db::answered(ANSWER_TIMEOUT, self.connect()).await {
                    Ok(mut listener) => {
                        if self.hears_itself.is_none() {
                            self.hears_itself = Some(self.test(&mut listener).await);
                        }
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
                    // Else it is the self-test of another process.
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
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(self.ways.listen.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.listen_all(self.channels.iter().map(|channel| channel.as_str()).chain([SELF_TEST])).await?;
        Ok(listener)
    }

    /// Behind a pooler that hands connections from one transaction to the next LISTEN succeeds, and nothing is ever heard. Whatever
    /// comes meanwhile is lost with what came before: `Listening` says so.
    async fn test(&self, listener: &mut PgListener) -> bool {
        let token = rand::random::<u128>().to_string();
        let hears = async {
            let mut notifying = self.ways.notify.connect().await?;
            sqlx::query!("SELECT count(pg_notify($1, $2))", SELF_TEST, token).fetch_one(&mut notifying).await?;
            while listener.recv().await?.payload() != token {}
            Ok(())
        };
        let heard = db::answered(SELF_TEST_TIMEOUT, hears).await;
        if let Err(error) = &heard {
            tracing::warn!(
                error = chain(error),
                "notifications do not come through, perhaps because of a pooler: running on polling; \
                 `database.listen_url` can lead around it"
            );
        }
        heard.is_ok()
    }
}
