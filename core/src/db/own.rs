//! Connections of one's own, beside the pool.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::db::is_lost;

/// A few connections, most often one, for statements that come one after the other: none of them waits for the pool, and none
/// costs the round trip with which the pool takes a connection back. Made when they are needed; one whose statement had no answer
/// is not used again. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct OwnConnections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: PgConnectOptions,
    /// Of connections in use.
    places: Semaphore,
    /// The one that came back last is lent first: what it has in its caches is of use.
    idle: Mutex<Vec<PgConnection>>,
}

impl OwnConnections {
    pub(crate) fn new(options: PgConnectOptions, most: usize) -> Self {
        // All that is done here finds its rows by an index. A plan that was made while a table was small, and is kept, would go on
        // reading it from one end to the other.
        let options = options.options([("enable_seqscan", "off")]);
        Self(Arc::new(Shared { options, places: Semaphore::new(most), idle: Mutex::default() }))
    }

    pub(crate) fn one(options: PgConnectOptions) -> Self {
        Self::new(options, 1)
    }

    /// A kept connection, or a new one, for one statement. Waits for a place where all are in use.
    pub(crate) async fn lend(&self) -> Result<Lent<'_>, sqlx::Error> {
        let place = self.0.places.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
        let kept = self.0.idle().pop();
        let connection = match kept {
            Some(connection) => connection,
            None => self.0.options.connect().await?,
        };
        Ok(Lent { connection, shared: &self.0, _place: place })
    }

    /// Ends those that nobody uses.
    pub(crate) async fn close(self) {
        let idle = std::mem::take(&mut *self.0.idle());
        for connection in idle {
            let _ = sqlx::Connection::close(connection).await; // whatever it says, it is gone
        }
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<PgConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It is closed, unless there was an answer: whoever stops waiting for one leaves it in the middle of something.
pub(crate) struct Lent<'a> {
    connection: PgConnection,
    shared: &'a Shared,
    _place: SemaphorePermit<'a>,
}

impl Lent<'_> {
    /// Gives the connection back, unless the answer is that it was lost.
    pub(crate) fn answered<T>(self, answer: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        if !answer.as_ref().is_err_and(is_lost) {
            self.shared.idle().push(self.connection);
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
