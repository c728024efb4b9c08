//! How many runs of a tenant wait for a worker, as a submission may know it: an estimate, never a count of its own.
//!
//! It is refreshed beside the submission that finds it old, which does not wait: a count of thousands of rows must not be part
//! of any submission. What this process has submitted since is added, so that a burst does not pass below it. Only who would be
//! refused waits for a count: an estimate knows nothing of runs that have been claimed since.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::PgPool;
use tokio::time::Instant;

use crate::error::{Error, chain};
use crate::runs::service::RunService;
use crate::runs::status::Priority;
use crate::runs::store;
use crate::runs::submission::NewRun;

/// How long an estimate is good.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// How long a count is good enough to refuse by: a tenant at its cap must not have its rows counted for each refusal.
const RECOUNT_INTERVAL: Duration = Duration::from_millis(100);

/// A tenant that has not submitted for so long is forgotten.
const KEPT: Duration = Duration::from_secs(60);

/// Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Backlog {
    pool: PgPool,
    runs_max: i64,
    tenants: Arc<Mutex<HashMap<String, Estimate>>>,
    /// One at a time, whoever waits for it.
    recount: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Clone, Copy)]
struct Estimate {
    /// As the database last said, and what came from here since it was asked.
    counted: i64,
    since: i64,
    /// When the database was last asked, answered or not.
    asked_at: Instant,
    counted_at: Option<Instant>,
}

impl RunService {
    /// Whether the tenant has its fill of queued runs. Whatever finds an unfinished run in its session makes no new one, and
    /// passes.
    pub(super) async fn backlog_is_full(&self, new: &NewRun) -> Result<bool, Error> {
        Ok(self.backlog.is_full(&new.principal.tenant_id).await?
            && store::unfinished(&self.pool, &new.principal, new.session_id).await?.is_none())
    }
}

impl Backlog {
    pub(crate) fn new(pool: PgPool, runs_max: u32) -> Self {
        Self { pool, runs_max: i64::from(runs_max), tenants: Arc::default(), recount: Arc::default() }
    }

    /// Whether the tenant has as many queued runs as it may. Nothing is known of a tenant before its first submission: that
    /// one passes.
    async fn is_full(&self, tenant_id: &str) -> Result<bool, Error> {
        if !self.seems_full(tenant_id) {
            return Ok(false);
        }
        let _one_at_a_time = self.recount.lock().await;
        if !self.was_counted_full(tenant_id) {
            let asked_with = self.tenants().get(tenant_id).map_or(0, |estimate| estimate.since);
            self.recount(tenant_id, asked_with).await?;
        }
        Ok(self.seems_full(tenant_id))
    }

    fn seems_full(&self, tenant_id: &str) -> bool {
        let now = Instant::now();
        let mut tenants = self.tenants();
        let known = tenants.get(tenant_id).copied();
        if known.is_none_or(|estimate| now - estimate.asked_at >= REFRESH_INTERVAL) {
            tenants.retain(|_, estimate| now - estimate.asked_at < KEPT);
            let Estimate { counted, since, counted_at, .. } =
                known.unwrap_or(Estimate { counted: 0, since: 0, asked_at: now, counted_at: None });
            tenants.insert(tenant_id.to_owned(), Estimate { counted, since, asked_at: now, counted_at });
            tokio::spawn(self.clone().refresh(tenant_id.to_owned(), since));
        }
        known.is_some_and(|estimate| estimate.counted + estimate.since >= self.runs_max)
    }

    /// A moment ago, and it was full by that count alone.
    fn was_counted_full(&self, tenant_id: &str) -> bool {
        self.tenants().get(tenant_id).is_some_and(|estimate| {
            estimate.counted >= self.runs_max && estimate.counted_at.is_some_and(|at| at.elapsed() < RECOUNT_INTERVAL)
        })
    }

    /// One more, until the next refresh knows better.
    pub(crate) fn count(&self, tenant_id: &str) {
        if let Some(estimate) = self.tenants().get_mut(tenant_id) {
            estimate.since += 1;
        }
    }

    async fn refresh(self, tenant_id: String, asked_with: i64) {
        if let Err(error) = self.recount(&tenant_id, asked_with).await {
            tracing::debug!(error = chain(&error), "the queue was not counted");
        }
    }

    async fn recount(&self, tenant_id: &str, asked_with: i64) -> Result<(), sqlx::Error> {
        let counted = count_queued(&self.pool, tenant_id, self.runs_max).await?;
        if let Some(estimate) = self.tenants().get_mut(tenant_id) {
            let since = (estimate.since - asked_with).max(0); // two counts at once take the same submissions away
            *estimate = Estimate { counted, since, counted_at: Some(Instant::now()), ..*estimate };
        }
        Ok(())
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<String, Estimate>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One probe per class of the claim's own index, each up to the cap: beyond it nobody needs to know. What is put off until
/// later waits for its time, not for a worker.
async fn count_queued(pool: &PgPool, tenant_id: &str, runs_max: i64) -> Result<i64, sqlx::Error> {
    let priorities: Vec<String> = Priority::ALL.iter().map(ToString::to_string).collect();
    sqlx::query_scalar!(
        r#"
        SELECT coalesce(sum(queued.runs), 0)::int8 AS "runs!"
        FROM unnest($1::text[]) AS c(priority) CROSS JOIN LATERAL (
            SELECT count(*) AS runs FROM (
                SELECT 1 FROM runs r
                WHERE r.status = 'QUEUED' AND r.scheduled_for IS NULL AND r.priority = c.priority AND r.tenant_id = $2
                LIMIT $3
            ) capped
        ) queued
        "#,
        &priorities,
        tenant_id,
        runs_max,
    )
    .fetch_one(pool)
    .await
}
