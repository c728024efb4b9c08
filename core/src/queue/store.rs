//! Counting what waits and who is there.

use sqlx::PgPool;

use crate::config::Slots;
use crate::error::Error;
use crate::principal::Principal;
use crate::queue::view::{ClassView, WorkerView};
use crate::runs::Priority;

/// Workers shown at most.
const WORKERS_MAX: i64 = 1_000;

/// By the indexes of what is queued and what runs: what has ended is not looked at.
pub(super) async fn classes(pool: &PgPool, principal: &Principal) -> Result<Vec<ClassView>, Error> {
    let priorities: Vec<String> = Priority::ALL.iter().map(ToString::to_string).collect();
    let rows = sqlx::query!(
        r#"
        SELECT c.priority AS "priority!",
            (SELECT count(*) FROM runs r WHERE r.status = 'QUEUED' AND r.scheduled_for IS NULL AND r.priority = c.priority AND r.tenant_id = $1)
            + (SELECT count(*) FROM runs r WHERE r.status = 'QUEUED' AND r.scheduled_for IS NOT NULL AND r.priority = c.priority AND r.tenant_id = $1)
                AS "depth!",
            (SELECT extract(epoch FROM now() - min(r.status_since))::float8 FROM runs r
             WHERE r.status = 'QUEUED' AND r.scheduled_for IS NULL AND r.priority = c.priority AND r.tenant_id = $1) AS oldest_age_seconds,
            (SELECT count(*) FROM runs r WHERE r.status = 'RUNNING' AND r.tenant_id = $1 AND r.priority = c.priority) AS "running!"
        FROM unnest($2::text[]) WITH ORDINALITY AS c(priority, place)
        ORDER BY c.place
        "#,
        principal.tenant_id,
        &priorities,
    )
    .fetch_all(pool)
    .await?;
    let view = |(priority, depth, oldest_age_seconds, running): (String, i64, Option<f64>, i64)| {
        Ok(ClassView { priority: priority.parse().map_err(Error::internal)?, depth, oldest_age_seconds, running })
    };
    rows.into_iter().map(|row| view((row.priority, row.depth, row.oldest_age_seconds, row.running))).collect()
}

pub(super) async fn workers(pool: &PgPool) -> Result<Vec<WorkerView>, Error> {
    let rows = sqlx::query!(
        r#"
        SELECT w.id, w.version, w.slots_interactive, w.slots_async, w.slots_maintenance, w.slots_shared, w.started_at, w.renewed_at
        FROM workers w WHERE NOT w.dead AND w.expires_at > now() ORDER BY w.started_at, w.id LIMIT $1
        "#,
        WORKERS_MAX,
    )
    .fetch_all(pool)
    .await?;
    let slots = |count: i32| u16::try_from(count).unwrap_or(u16::MAX);
    Ok(rows
        .into_iter()
        .map(|row| WorkerView {
            id: row.id,
            version: row.version,
            slots: Slots {
                interactive: slots(row.slots_interactive),
                r#async: slots(row.slots_async),
                maintenance: slots(row.slots_maintenance),
                shared: slots(row.slots_shared),
            },
            started_at: row.started_at,
            seen_at: row.renewed_at,
        })
        .collect())
}
