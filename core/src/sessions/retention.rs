//! Sessions in which nothing has happened for long: deleted whole, where `retention.days` says so.

use sqlx::PgPool;
use uuid::Uuid;

use crate::error::Error;
use crate::sessions::delete::{self, Doomed};

/// Sessions that a pass looks at: one query along the primary key.
const LOOKED_AT_MAX: usize = 1_000;

/// Sessions that a pass deletes: what waits for maintenance waits no longer than these take.
const DELETED_MAX: usize = 100;

/// Goes through the sessions, oldest first and some at a time, and begins again behind the last one that is old enough. There
/// is no index by `updated_at`, which every message moves; but identifiers are in the order of creation.
#[derive(Debug)]
pub(crate) struct Retention {
    days: i32,
    after: Uuid,
}

struct Candidate {
    id: Uuid,
    tenant_id: String,
    principal_id: String,
    /// Created so long ago; where one is not, none behind it is.
    is_old: bool,
    is_due: bool,
}

impl Retention {
    pub(crate) fn new(days: u16) -> Self {
        Self { days: i32::from(days), after: Uuid::nil() }
    }

    /// One pass; how many sessions it deleted.
    ///
    /// # Errors
    /// The database's. The next pass goes on behind the session that this one failed at.
    pub(crate) async fn pass(&mut self, pool: &PgPool) -> Result<usize, Error> {
        let candidates = candidates(pool, self.after, self.days).await?;
        let is_end = candidates.len() < LOOKED_AT_MAX || candidates.last().is_some_and(|last| !last.is_old);
        let mut deleted = 0;
        for candidate in candidates {
            self.after = candidate.id;
            if !candidate.is_due {
                continue;
            }
            let doomed = Doomed {
                id: candidate.id,
                tenant_id: &candidate.tenant_id,
                principal_id: &candidate.principal_id,
                idle_days: Some(self.days),
            };
            match delete::delete(pool, doomed).await {
                Ok(is_deleted) => deleted += usize::from(is_deleted),
                Err(Error::Conflict(_) | Error::ConcurrencyConflict) => {} // somebody went on with it
                Err(error) => return Err(error),
            }
            if deleted == DELETED_MAX {
                return Ok(deleted);
            }
        }
        if is_end {
            self.after = Uuid::nil();
        }
        Ok(deleted)
    }
}

async fn candidates(pool: &PgPool, after: Uuid, days: i32) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as!(
        Candidate,
        r#"
        SELECT p.id, p.tenant_id, p.principal_id,
            p.created_at < now() - $2::int4 * interval '1 day' AS "is_old!",
            p.updated_at < now() - $2::int4 * interval '1 day'
                AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.session_id = p.id AND r.finished_at IS NULL) AS "is_due!"
        FROM (
            -- The limit is in here, so that no more is looked at than that, however little of it is due.
            SELECT s.id, s.tenant_id, s.principal_id, s.created_at, s.updated_at
            FROM sessions s WHERE s.id > $1 ORDER BY s.id LIMIT $3
        ) p
        ORDER BY p.id
        "#,
        after,
        days,
        LOOKED_AT_MAX as i64,
    )
    .fetch_all(pool)
    .await
}
