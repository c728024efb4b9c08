//! Why a run failed, in words that never change and never repeat what a provider or the database said.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::closed_set::closed_set;

closed_set! {
    FailureReason {
        LeaseLostTooOften = "lease_lost_too_often",
        BudgetExceeded = "budget_exceeded",
        DeadlineExceeded = "deadline_exceeded",
        MaxStepsExceeded = "max_steps_exceeded",
        ToolLoopDetected = "tool_loop_detected",
        RepeatedDenial = "repeated_denial",
        ApprovalExpired = "approval_expired",
        InputDeadlineExceeded = "input_deadline_exceeded",
        ContextOverflow = "context_overflow",
        ModelPermanentError = "model_permanent_error",
        ModelProtocolError = "model_protocol_error",
        EmptyModelTurn = "empty_model_turn",
        AuthorizationError = "authorization_error",
        ChildRunFailed = "child_run_failed",
        InternalError = "internal_error",
    }
}

impl FailureReason {
    pub const fn message(self) -> &'static str {
        match self {
            Self::LeaseLostTooOften => "The workers that executed this run were lost too often.",
            Self::BudgetExceeded => "The run reached one of its limits.",
            Self::DeadlineExceeded => "The run did not end before its deadline.",
            Self::MaxStepsExceeded => "The run reached its limit of steps.",
            Self::ToolLoopDetected => "The model repeated the same tool call with the same result.",
            Self::RepeatedDenial => "The model asked again and again for what had been denied.",
            Self::ApprovalExpired => "Nobody answered an approval in time.",
            Self::InputDeadlineExceeded => "The user did not answer a question in time.",
            Self::ContextOverflow => "The conversation does not fit the model's context.",
            Self::ModelPermanentError => "The model cannot answer this request.",
            Self::ModelProtocolError => "The model's answer was not understood.",
            Self::EmptyModelTurn => "The model answered nothing.",
            Self::AuthorizationError => "The run may not do what it was asked to do.",
            Self::ChildRunFailed => "A run that this run had started failed.",
            Self::InternalError => "The run failed by a defect of the system.",
        }
    }
}

/// The failure of a run as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    pub message: String,
    #[serde(with = "time::serde::rfc3339")]
    pub occurred_at: OffsetDateTime,
    pub reason: FailureReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    pub step: Option<u32>,
}

impl Failure {
    pub fn new(reason: FailureReason, step: Option<u32>, occurred_at: OffsetDateTime) -> Self {
        Self { message: reason.message().to_owned(), occurred_at, reason, step }
    }
}
