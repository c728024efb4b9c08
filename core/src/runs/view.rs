//! A run as clients see it. Never on the wire: owner, lease, epoch, losses, tenant, stored scopes, internal class.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::runs::failure::Failure;
use crate::runs::status::{Priority, RunStatus};
use crate::runs::usage::Usage;

#[derive(Debug, Clone, Serialize)]
pub struct RunView {
    pub id: Uuid,
    pub session_id: Uuid,
    pub parent_run_id: Option<Uuid>,
    pub agent_id: String,
    pub agent_version: String,
    pub status: RunStatus,
    pub priority: Priority,
    pub metadata: Box<RawValue>,
    pub step_count: i32,
    pub usage: Usage,
    pub limits: LimitsView,
    pub failure: Option<Failure>,
    pub waiting_for: Option<WaitingFor>,
    pub cancel: Option<CancelView>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub started_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub finished_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

/// The limits that the run was given, clamped to its agent's.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LimitsView {
    pub max_steps: i32,
    pub max_model_calls: i32,
    pub max_tool_calls: i32,
    pub max_input_tokens: Option<i64>,
    pub max_output_tokens: Option<i64>,
    pub max_cost_usd: Option<Decimal>,
    #[serde(with = "time::serde::rfc3339")]
    pub deadline_at: OffsetDateTime,
}

/// What people have to do before the run goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WaitingFor {
    Approval {
        /// Those that are pending.
        approval_ids: Vec<Uuid>,
    },
    User {
        question_id: Uuid,
        question: String,
        /// None: any text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        choices: Option<Vec<String>>,
        #[serde(with = "time::serde::rfc3339")]
        expires_at: OffsetDateTime,
    },
}

/// The stages of a cancellation; `settled_at` is the end of the run, however it ended.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CancelView {
    #[serde(with = "time::serde::rfc3339")]
    pub requested_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub observed_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub settled_at: Option<OffsetDateTime>,
}
