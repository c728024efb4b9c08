//! Views of the queue. Workers are everybody's; the runs are the caller's tenant's.

use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::config::Slots;
use crate::runs::Priority;

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct QueueView {
    /// One for each priority, in the order in which free slots are given away.
    #[schema(min_items = 3, max_items = 3)]
    pub classes: Vec<ClassView>,
    /// Those that are alive.
    #[schema(max_items = 1_000)]
    pub workers: Vec<WorkerView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ClassView {
    pub priority: Priority,
    /// Runs that are queued, those included that are not due yet.
    #[schema(minimum = 0)]
    pub depth: i64,
    /// How long the oldest of them has been queued; null without any.
    #[schema(required)]
    pub oldest_age_seconds: Option<f64>,
    #[schema(minimum = 0)]
    pub running: i64,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct WorkerView {
    pub id: Uuid,
    pub version: String,
    pub slots: Slots,
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub seen_at: OffsetDateTime,
}
