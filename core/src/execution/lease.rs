//! Who executes what. Liveness belongs to the worker process; a [`Lease`] is the proof that it owns a run.

use std::time::Duration;

use sqlx::PgPool;
use uuid::Uuid;

use crate::config::Slots;
use crate::error::Error;

/// Proof of ownership of one run, from one claim. Every write of a worker names it; nothing outside this file makes one.
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

    pub fn run_id(&self) -> Uuid {
        self.run_id
    }

    pub fn session_id(&self) -> Uuid {
        self.session_id
    }

    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(super) fn worker_id(&self) -> Uuid {
        self.worker_id
    }

    pub(super) fn appends(&self) -> i32 {
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

/// The rows of workers. Its pool is one connection of its own, which the work cannot starve.
#[derive(Debug, Clone)]
pub struct Workers {
    pool: PgPool,
}

impl Workers {
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// # Errors
    /// The database's.
    pub async fn register(&self, worker: &WorkerIdentity, lease: Duration) -> Result<(), Error> {
        let slots = worker.slots;
        sqlx::query!(
            r#"
            INSERT INTO workers (id, expires_at, hostname, pid, version, slots_interactive, slots_async, slots_maintenance, slots_shared)
            VALUES ($1, now() + $2::float8 * interval '1 second', $3, $4, $5, $6, $7, $8, $9)
            ON CONFLICT (id) DO NOTHING
            "#,
            worker.id,
            lease.as_secs_f64(),
            worker.hostname,
            i32::try_from(worker.pid).unwrap_or(i32::MAX),
            worker.version,
            i32::from(slots.interactive),
            i32::from(slots.r#async),
            i32::from(slots.maintenance),
            i32::from(slots.shared),
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Renews every lease of the worker at once. `None`: the worker was declared dead, for good.
    ///
    /// The list is the statement's snapshot: only a run that was known before it was sent, and is absent, is lost; one that
    /// is listed and not known, and not in a claim under way, is a claim whose answer was lost.
    ///
    /// # Errors
    /// The database's.
    pub async fn renew(&self, worker_id: Uuid, lease: Duration) -> Result<Option<Vec<OwnedRun>>, Error> {
        let rows = sqlx::query!(
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
            lease.as_secs_f64(),
        )
        .fetch_all(&self.pool)
        .await?;
        if rows.is_empty() {
            return Ok(None);
        }
        let owned = rows.into_iter().filter_map(|row| {
            let (run_id, epoch) = row.run_id.zip(row.epoch)?;
            Some(OwnedRun { run_id, epoch, cancel_requested: row.cancel_requested })
        });
        Ok(Some(owned.collect()))
    }

    /// Hands runs back to the queue: due at once, no loss counted. Those that are not ours any more are left alone.
    ///
    /// # Errors
    /// The database's.
    pub async fn release(&self, worker_id: Uuid, runs: &[(Uuid, i32)]) -> Result<u64, Error> {
        let (ids, epochs): (Vec<Uuid>, Vec<i32>) = runs.iter().copied().unzip();
        let released = sqlx::query!(
            r#"
            WITH own AS MATERIALIZED (
                -- The guard, under the row's lock; runs in order of id.
                SELECT r.id AS run_id, r.session_id
                FROM runs r JOIN unnest($2::uuid[], $3::int4[]) AS w(run_id, epoch) ON w.run_id = r.id
                WHERE r.status = 'RUNNING' AND r.lease_owner = $1::uuid AND r.lease_epoch = w.epoch
                ORDER BY r.id FOR NO KEY UPDATE OF r
            ), ses AS MATERIALIZED (
                SELECT s.id, own.run_id FROM sessions s JOIN own ON own.session_id = s.id ORDER BY s.id FOR NO KEY UPDATE OF s
            ), num AS (
                UPDATE sessions s SET last_sequence = s.last_sequence + 1 FROM ses WHERE s.id = ses.id
                RETURNING ses.run_id, s.id AS session_id, s.last_sequence
            ), upd AS (
                UPDATE runs r SET status = 'QUEUED', lease_owner = NULL, resume_after = 'handed_back', status_since = now(), updated_at = now()
                FROM num WHERE r.id = num.run_id
                RETURNING r.id AS run_id, num.session_id, num.last_sequence
            ), ev AS (
                INSERT INTO events (session_id, sequence, run_id, type, schema_version, body)
                SELECT u.session_id, u.last_sequence, u.run_id, 'run.requeued', 1, '{"cause":"handed_back"}' FROM upd u
            )
            SELECT upd.run_id FROM upd
            "#,
            worker_id,
            &ids,
            &epochs,
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(released.len() as u64)
    }

    /// Says that the worker is gone, once it owns nothing any more, so that nobody waits for its lease to expire.
    ///
    /// # Errors
    /// The database's.
    pub async fn retire(&self, worker_id: Uuid) -> Result<(), Error> {
        sqlx::query!("UPDATE workers SET dead = true WHERE id = $1", worker_id).execute(&self.pool).await?;
        Ok(())
    }
}
