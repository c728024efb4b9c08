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

closed_set! {
    /// What is behind a reason, as operators count it.
    FailureClass {
        MaxCost = "max_cost_usd",
        MaxInputTokens = "max_input_tokens",
        MaxModelCalls = "max_model_calls",
        MaxOutputTokens = "max_output_tokens",
        MaxToolCalls = "max_tool_calls",
        OutputTruncated = "output_truncated",
        Unpriced = "unpriced",
        CredentialRefused = "credential_refused",
        NoModelPolicy = "no_model_policy",
        NoProvider = "no_provider",
        ProviderChanged = "provider_changed",
        ProviderUnavailable = "provider_unavailable",
        ProviderUnreached = "provider_unreached",
        ReasonedToLimit = "reasoned_to_limit",
        RequestRefused = "request_refused",
    }
}

impl FailureClass {
    pub const fn reason(self) -> FailureReason {
        match self {
            Self::MaxCost
            | Self::MaxInputTokens
            | Self::MaxModelCalls
            | Self::MaxOutputTokens
            | Self::MaxToolCalls
            | Self::OutputTruncated
            | Self::Unpriced => FailureReason::BudgetExceeded,
            Self::CredentialRefused
            | Self::NoModelPolicy
            | Self::NoProvider
            | Self::ProviderChanged
            | Self::ProviderUnavailable
            | Self::ProviderUnreached
            | Self::RequestRefused => FailureReason::ModelPermanentError,
            Self::ReasonedToLimit => FailureReason::EmptyModelTurn,
        }
    }

    pub const fn message(self) -> &'static str {
        match self {
            Self::MaxCost => "What is left of the run's limit of cost (max_cost_usd) does not pay for another answer.",
            Self::MaxInputTokens => "The run reached its limit of input tokens (max_input_tokens).",
            Self::MaxModelCalls => "The run reached its limit of model calls (max_model_calls).",
            Self::MaxOutputTokens => "The run reached its limit of output tokens (max_output_tokens).",
            Self::MaxToolCalls => "The run reached its limit of tool calls (max_tool_calls).",
            Self::OutputTruncated => "The model's answers were cut off again and again.",
            Self::Unpriced => "The run has a limit of cost, and what its model costs is not known any more.",
            Self::CredentialRefused => {
                "The model's provider refuses our key, or wants to be paid first; for a minute it is not asked again."
            }
            Self::NoModelPolicy => "The agent's model is not offered here.",
            Self::NoProvider => "The key of the model's provider is missing here.",
            Self::ProviderChanged => "The model that this run began with is not offered here any more.",
            Self::ProviderUnavailable => "The model's provider did not answer, several times.",
            Self::ProviderUnreached => "The model's provider was not reached, several times.",
            Self::ReasonedToLimit => "The model spent its limit of output on reasoning, and said nothing.",
            Self::RequestRefused => "The model's provider refuses this request.",
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

    /// With what may be said of what is behind it.
    #[must_use]
    pub fn because(self, class: FailureClass) -> Self {
        Self { message: class.message().to_owned(), ..self }
    }
}
