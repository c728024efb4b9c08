//! A run as clients see it. Never on the wire: owner, lease, epoch, losses, tenant, stored scopes, internal class.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::runs::failure::Failure;
use crate::runs::status::{Priority, RunStatus};
use crate::runs::usage::Usage;
use crate::schema;

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RunView {
    pub id: Uuid,
    pub session_id: Uuid,
    #[schema(required)]
    pub parent_run_id: Option<Uuid>,
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$")]
    pub agent_id: String,
    #[schema(pattern = "^[A-Za-z0-9._+-]{1,64}$")]
    pub agent_version: String,
    pub status: RunStatus,
    pub priority: Priority,
    #[schema(value_type = Object)]
    pub metadata: Box<RawValue>,
    #[schema(minimum = 0)]
    pub step_count: i32,
    pub usage: Usage,
    pub limits: LimitsView,
    #[schema(required)]
    pub failure: Option<Failure>,
    #[schema(required)]
    pub waiting_for: Option<WaitingFor>,
    #[schema(required)]
    pub cancel: Option<CancelView>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(required)]
    pub started_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(required)]
    pub finished_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

/// The limits that the run was given, clamped to its agent's.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct LimitsView {
    #[schema(minimum = 1)]
    pub max_steps: i32,
    #[schema(minimum = 1)]
    pub max_model_calls: i32,
    #[schema(minimum = 0)]
    pub max_tool_calls: i32,
    #[schema(required, minimum = 1)]
    pub max_input_tokens: Option<i64>,
    #[schema(required, minimum = 1)]
    pub max_output_tokens: Option<i64>,
    #[schema(required, schema_with = schema::usd_or_null)]
    pub max_cost_usd: Option<Decimal>,
    #[serde(with = "time::serde::rfc3339")]
    pub deadline_at: OffsetDateTime,
}

/// What people have to do before the run goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
        #[schema(nullable = false)]
        choices: Option<Vec<String>>,
        #[serde(with = "time::serde::rfc3339")]
        expires_at: OffsetDateTime,
    },
}

/// The stages of a cancellation; `settled_at` is the end of the run, however it ended.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct CancelView {
    #[serde(with = "time::serde::rfc3339")]
    pub requested_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(required)]
    pub observed_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(required)]
    pub settled_at: Option<OffsetDateTime>,
}
