//! A connection of one's own, beside the pool.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::sync::{Mutex, MutexGuard};

use crate::db::is_lost;

/// One connection for statements that come one after the other: none of them waits for the pool, and none costs the round trip
/// with which the pool takes a connection back. Made when it is needed; one whose statement had no answer is not used again.
#[derive(Debug, Clone)]
pub(crate) struct OwnConnection {
    options: PgConnectOptions,
    kept: Arc<Mutex<Option<PgConnection>>>,
}

impl OwnConnection {
    pub(crate) fn new(options: PgConnectOptions) -> Self {
        Self { options, kept: Arc::default() }
    }

    /// The kept connection, or a new one, for one statement.
    pub(crate) async fn lend(&self) -> Result<Lent<'_>, sqlx::Error> {
        let mut kept = self.kept.lock().await;
        let connection = match kept.take() {
            Some(connection) => connection,
            None => self.options.connect().await?,
        };
        Ok(Lent { connection, kept })
    }

    /// Ends it, where there is one.
    pub(crate) async fn close(self) {
        if let Some(connection) = self.kept.lock().await.take() {
            let _ = sqlx::Connection::close(connection).await; // whatever it says, it is gone
        }
    }
}

/// It is closed, unless there was an answer: whoever stops waiting for one leaves it in the middle of something.
pub(crate) struct Lent<'a> {
    connection: PgConnection,
    kept: MutexGuard<'a, Option<PgConnection>>,
}

impl Lent<'_> {
    /// Gives the connection back, unless the answer is that it was lost.
    pub(crate) fn answered<T>(mut self, answer: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        if !answer.as_ref().is_err_and(is_lost) {
            *self.kept = Some(self.connection);
        }
        answer
    }
}

impl Deref for Lent<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}
