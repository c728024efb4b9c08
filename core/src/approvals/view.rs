//! An approval as clients see it. Never on the wire: the rule that fired, the stored scopes, the tenant.

use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::closed_set::closed_set;
use crate::events::Decision;
use crate::tools::Risk;

closed_set! {
    ApprovalStatus {
        Pending = "PENDING",
        Approved = "APPROVED",
        Denied = "DENIED",
        /// Nobody answered in time; never approved afterwards.
        Expired = "EXPIRED",
        /// The run ended first.
        Cancelled = "CANCELLED",
    }
}

impl ApprovalStatus {
    /// How it ended, where it has.
    pub const fn decision(self) -> Option<Decision> {
        match self {
            Self::Pending => None,
            Self::Approved => Some(Decision::ApproveOnce),
            Self::Denied => Some(Decision::Deny),
            Self::Expired => Some(Decision::Expired),
            Self::Cancelled => Some(Decision::Cancelled),
        }
    }
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ApprovalView {
    pub id: Uuid,
    pub run_id: Uuid,
    pub session_id: Uuid,
    pub status: ApprovalStatus,
    pub tool_name: String,
    /// One line for people.
    pub action_summary: String,
    /// The stored canonical text, byte for byte: what will run.
    #[schema(value_type = Object)]
    pub arguments: Box<RawValue>,
    pub risk: Risk,
    /// Why a person is asked.
    pub policy_reason: String,
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(required)]
    pub resolved_at: Option<OffsetDateTime>,
    /// The person who decided; null where nobody did.
    #[schema(required)]
    pub resolved_by: Option<String>,
    #[schema(required)]
    pub decision: Option<Decision>,
}
