//! Views of the queue. Workers are everybody's; the runs are the caller's tenant's.

use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::config::Slots;
use crate::runs::Priority;

#[derive(Debug, Clone, Serialize)]
pub struct QueueView {
    /// One for each priority, in the order in which free slots are given away.
    pub classes: Vec<ClassView>,
    /// Those that are alive.
    pub workers: Vec<WorkerView>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassView {
    pub priority: Priority,
    /// Runs that are queued, those included that are not due yet.
    pub depth: i64,
    /// How long the oldest of them has been queued; null without any.
    pub oldest_age_seconds: Option<f64>,
    pub running: i64,
}

#[derive(Debug, Clone, Serialize)]
pub struct WorkerView {
    pub id: Uuid,
    pub version: String,
    pub slots: Slots,
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub seen_at: OffsetDateTime,
}
