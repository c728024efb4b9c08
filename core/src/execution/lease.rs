//! Who executes what. Liveness belongs to the worker process; a [`Lease`] is the proof that it owns a run.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::config::Slots;
use crate::db::{self, Lent, OwnConnections};
use crate::error::Error;

/// Proof of ownership of one run, from one claim. Every write of an execution names it, and only a claim makes one.
#[derive(Debug)]
pub struct Lease {
    run_id: Uuid,
    session_id: Uuid,
    worker_id: Uuid,
    epoch: i32,
    /// Writes of workers so far. A write names the number it expects, so that its repetition writes nothing.
    appends: i32,
}

impl Lease {
    /// From the row that a claim has just written.
    pub(super) fn claimed(run_id: Uuid, session_id: Uuid, worker_id: Uuid, epoch: i32, appends: i32) -> Self {
        Self { run_id, session_id, worker_id, epoch, appends }
    }

    pub const fn run_id(&self) -> Uuid {
        self.run_id
    }

    pub const fn session_id(&self) -> Uuid {
        self.session_id
    }

    pub const fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(super) const fn worker_id(&self) -> Uuid {
        self.worker_id
    }

    pub(super) const fn appends(&self) -> i32 {
        self.appends
    }

    pub(super) fn count_append(&mut self) {
        self.appends += 1;
    }
}

/// What a worker process says of itself.
#[derive(Debug, Clone)]
pub struct WorkerIdentity {
    /// New at every start of a process, never reused.
    pub id: Uuid,
    pub hostname: String,
    pub pid: u32,
    pub version: String,
    pub slots: Slots,
}

/// A run that the database says a worker owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedRun {
    pub run_id: Uuid,
    pub epoch: i32,
    pub cancel_requested: bool,
}

/// The part of a lease after which a renewal without an answer is tried again on a new connection: three tries in a lease.
const ANSWER_PART: u32 = 4;

/// The rows of workers, on one connection of their own, which the work cannot starve. One that fails, or does not answer in
/// time, is not used again.
#[derive(Debug, Clone)]
pub struct Workers {
    lease: Duration,
    connection: OwnConnections,
}

impl Workers {
    pub fn new(options: PgConnectOptions, lease: Duration) -> Self {
        Self { lease, connection: OwnConnections::one(options) }
    }

    /// # Errors
    /// The database's.
    pub async fn register(&self, worker: &WorkerIdentity) -> Result<(), Error> {
        let mut connection = self.connection().await?;
        let slots = worker.slots;
        let registered = sqlx::query!(
            r#"
            INSERT INTO workers (id, expires_at, hostname, pid, version, slots_interactive, slots_async, slots_maintenance, slots_shared)
            VALUES ($1, now() + $2::float8 * interval '1 second', $3, $4, $5, $6, $7, $8, $9)
            ON CONFLICT (id) DO NOTHING
            "#,
            worker.id,
            self.lease.as_secs_f64(),
            worker.hostname,
            i32::try_from(worker.pid).unwrap_or(i32::MAX),
            worker.version,
            i32::from(slots.interactive),
            i32::from(slots.r#async),
            i32::from(slots.maintenance),
            i32::from(slots.shared),
        )
        .execute(&mut *connection);
        let answer = db::answered(self.answer_within(), registered).await;
        connection.answered(answer)?;
        Ok(())
    }

    /// Renews every lease of the worker at once. `None`: the worker was declared dead, for good.
    ///
    /// The list is the statement's snapshot: only a run that was known before it was sent, and is absent, is lost; one that
    /// is listed and not known, and not in a claim under way, is a claim whose answer was lost.
    ///
    /// # Errors
    /// The database's.
    pub async fn renew(&self, worker_id: Uuid) -> Result<Option<Vec<OwnedRun>>, Error> {
        let mut connection = self.connection().await?;
        let renewed = sqlx::query!(
            r#"
            WITH me AS (
                UPDATE workers w SET renewed_at = now(), expires_at = now() + $2::float8 * interval '1 second'
                WHERE w.id = $1 AND NOT w.dead
                RETURNING w.id
            )
            SELECT r.id AS "run_id?", r.lease_epoch AS "epoch?", r.cancel_requested_at IS NOT NULL AS "cancel_requested!"
            FROM me LEFT JOIN runs r ON r.lease_owner = me.id AND r.status = 'RUNNING'
            "#,
            worker_id,
            self.lease.as_secs_f64(),
        )
        .fetch_all(&mut *connection);
        let answer = db::answered(self.answer_within(), renewed).await;
        let rows = connection.answered(answer)?;
        if rows.is_empty() {
            return Ok(None);
        }
        let owned = rows.into_iter().filter_map(|row| {
            let (run_id, epoch) = row.run_id.zip(row.epoch)?;
            Some(OwnedRun { run_id, epoch, cancel_requested: row.cancel_requested })
        });
        Ok(Some(owned.collect()))
    }

    /// Says that the worker is gone, once it owns nothing any more, so that nobody waits for its lease to expire.
    ///
    /// # Errors
    /// The database's.
    pub async fn retire(&self, worker_id: Uuid) -> Result<(), Error> {
        let mut connection = self.connection().await?;
        let retired = sqlx::query!("UPDATE workers SET dead = true WHERE id = $1", worker_id).execute(&mut *connection);
        let answer = db::answered(self.answer_within(), retired).await;
        connection.answered(answer)?;
        Ok(())
    }

    async fn connection(&self) -> Result<Lent<'_>, sqlx::Error> {
        db::answered(self.answer_within(), self.connection.lend()).await
    }

    fn answer_within(&self) -> Duration {
        self.lease / ANSWER_PART
    }
}
