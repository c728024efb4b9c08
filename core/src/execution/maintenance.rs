//! What any worker does for all: a pass of the sweeps, under an advisory lock, bounded and idempotent.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use crate::artifacts::{ArtifactStore, ORPHAN_AGE_MIN, ORPHAN_BATCH_MAX};
use crate::error::Error;
use crate::error::chain;
use crate::execution::settle;
use crate::idempotency;
use crate::notify::{Hint, Notifier};
use crate::sessions::retention::Retention;

/// Names our lock among the advisory locks of the database: "baton" in ASCII.
const LOCK: i64 = 0x0062_6174_6f6e;

/// Passes in a row that another worker may hold the lock before it is not waited for any more: a stopped process must not
/// stop everybody's maintenance. The sweeps are safe beside themselves; the lock only saves work.
const LOCKED_OUT_MAX: u32 = 5;

/// What must not be, or is in nobody's way, is looked for less often than what runs wait for.
const REPAIR_INTERVAL: Duration = Duration::from_secs(10);

/// What only has to be gone some day is looked at once a minute.
const CLEANING_INTERVAL: Duration = Duration::from_secs(60);

/// How long a dead worker is shown. Far beyond any statement's time limit: a claim under way still needs its row.
const DEAD_WORKER_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub struct Maintenance {
    pool: PgPool,
    notifier: Notifier,
    artifacts: ArtifactStore,
    retention: Option<Retention>,
    lease_losses_max: i32,
    locked_out: u32,
    /// By the caller's clock.
    repair_due: Duration,
    cleaning_due: Duration,
}

/// What a pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    pub workers_marked_dead: usize,
    pub runs_requeued: usize,
    pub runs_failed: usize,
    /// Runs that waited for nothing. There are none, unless somebody edits rows by hand.
    pub runs_repaired: usize,
}

impl Maintenance {
    pub fn new(pool: PgPool, notifier: Notifier, artifacts: ArtifactStore, lease_losses_max: u16) -> Self {
        Self {
            pool,
            notifier,
            artifacts,
            retention: None,
            lease_losses_max: i32::from(lease_losses_max),
            locked_out: 0,
            repair_due: Duration::ZERO,
            cleaning_due: Duration::ZERO,
        }
    }

    /// Deletes sessions in which nothing has happened for so many days; none: never.
    #[must_use]
    pub fn with_retention(self, days: Option<u16>) -> Self {
        Self { retention: days.map(Retention::new), ..self }
    }

    /// One pass; `None` where another worker is at it. `elapsed` is the caller's monotonic time.
    ///
    /// # Errors
    /// The database's; the next pass does what this one did not.
    pub async fn pass(&mut self, elapsed: Duration) -> Result<Option<Swept>, Error> {
        let mut conn = self.pool.acquire().await?;
        let locked = sqlx::query_scalar!(r#"SELECT pg_try_advisory_lock($1) AS "locked!""#, LOCK).fetch_one(&mut *conn).await?;
        if !locked && self.locked_out < LOCKED_OUT_MAX {
            self.locked_out += 1;
            return Ok(None);
        }
        self.locked_out = 0;
        let is_repair_due = elapsed >= self.repair_due;
        let swept = self.sweep(&mut conn, is_repair_due).await;
        if locked {
            let unlocked = sqlx::query_scalar!("SELECT pg_advisory_unlock($1)", LOCK).fetch_one(&mut *conn).await;
            if unlocked.is_err() {
                conn.close_on_drop(); // the end of the session releases what it still holds
            }
        }
        drop(conn);
        if is_repair_due {
            self.repair_due = elapsed + REPAIR_INTERVAL;
            if let Some(retention) = &mut self.retention {
                retention.pass(&self.pool).await?;
            }
            self.artifacts.delete_queued(&self.pool).await?;
            self.artifacts.collect_orphans(&self.pool, ORPHAN_AGE_MIN, ORPHAN_BATCH_MAX).await?;
        }
        if elapsed >= self.cleaning_due {
            self.cleaning_due = elapsed + CLEANING_INTERVAL;
            idempotency::remove_expired(&self.pool).await?;
            forget_dead_workers(&self.pool).await?;
        }
        swept.map(Some)
    }

    async fn sweep(&self, conn: &mut PgConnection, is_repair_due: bool) -> Result<Swept, Error> {
        let dead = settle::mark_dead_workers(conn).await?;
        if !dead.is_empty() {
            tracing::warn!(workers = ?dead, "workers did not renew their leases; their runs go back to the queue");
        }
        // One that fails must not keep the others from their work: each is tried, and the first error is the pass's.
        let lost = settle::requeue_lost(conn, self.lease_losses_max).await;
        let due = settle::clear_due(conn).await;
        let overdue = settle::fail_overdue(conn).await;
        let repaired = if is_repair_due { settle::repair_waiting(conn).await } else { Ok(Vec::new()) };
        let mut failed_sweep = None;
        let lost = done(lost, &mut failed_sweep);
        let due = done(due, &mut failed_sweep);
        let overdue = done(overdue, &mut failed_sweep);
        let repaired = done(repaired, &mut failed_sweep);
        for run in &lost {
            tracing::warn!(run_id = %run.run_id, failed = run.failed, "a run lost its worker");
        }
        for run in &overdue {
            tracing::info!(run_id = %run.run_id, reason = %run.reason, "a run that nobody executes was overdue");
        }
        for run in &repaired {
            tracing::error!(run_id = %run.run_id, requeued = run.requeued, "a run waited for approvals of which none was open");
        }
        let changed = lost
            .iter()
            .map(|run| (run.session_id, run.last_sequence))
            .chain(overdue.iter().map(|run| (run.session_id, run.last_sequence)))
            .chain(repaired.iter().map(|run| (run.session_id, run.last_sequence)));
        self.notifier.send(changed.map(|(session_id, sequence)| Hint::Events { session_id, sequence }));
        if due > 0 || lost.iter().any(|run| !run.failed) || repaired.iter().any(|run| run.requeued) {
            self.notifier.send([Hint::Queue]);
        }
        if let Some(error) = failed_sweep {
            return Err(error);
        }
        let failed = lost.iter().filter(|run| run.failed).count();
        Ok(Swept {
            workers_marked_dead: dead.len(),
            runs_requeued: lost.len() - failed,
            runs_failed: failed + overdue.len(),
            runs_repaired: repaired.len(),
        })
    }
}

/// What a sweep did; nothing where it failed.
fn done<T: Default>(swept: Result<T, Error>, first_error: &mut Option<Error>) -> T {
    swept.unwrap_or_else(|error| {
        tracing::error!(error = chain(&error), "a sweep failed");
        first_error.get_or_insert(error);
        T::default()
    })
}

async fn forget_dead_workers(pool: &PgPool) -> Result<(), Error> {
    sqlx::query!(
        r#"
        DELETE FROM workers w WHERE w.dead AND w.expires_at < now() - $1::float8 * interval '1 second'
          AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.lease_owner = w.id AND r.status = 'RUNNING')
        "#,
        DEAD_WORKER_KEPT.as_secs_f64(),
    )
    .execute(pool)
    .await?;
    Ok(())
}
