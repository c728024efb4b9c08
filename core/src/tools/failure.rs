//! What a model is told when a call did not give a result: six fields, with fixed wording for each reason.
//!
//! Nothing of what a service, a library or the policy said goes through here, so nothing of it can reach a model, an event or a
//! client by this way.

use serde::Serialize;

use crate::closed_set::closed_set;

closed_set! {
    /// Why a call has no result. A reason never disappears: it is in logs.
    ReasonCode {
        ToolNotFound = "tool_not_found",
        AuthorizationError = "authorization_error",
        InvalidArguments = "invalid_arguments",
        /// The turn was cut off at its token limit.
        TruncatedTurn = "truncated_turn",
        ToolPolicyDenied = "tool_policy_denied",
        ApprovalDenied = "approval_denied",
        /// What had been approved is not what would be done now.
        ApprovalInvalidated = "approval_invalidated",
        ToolTimeout = "tool_timeout",
        ToolExecutionError = "tool_execution_error",
        ToolResultInvalid = "tool_result_invalid",
        ToolOutputTooLarge = "tool_output_too_large",
        ArtifactStorageError = "artifact_storage_error",
        NotConfigured = "not_configured",
        /// The run ended before the call was made.
        Cancelled = "cancelled",
        /// The call may have had its effect, and nobody can know.
        Unknown = "unknown",
        ExpressionInvalid = "expression_invalid",
        NumberOutOfRange = "number_out_of_range",
        DivisionByZero = "division_by_zero",
        TimezoneUnknown = "timezone_unknown",
        ArtifactInvalid = "artifact_invalid",
    }
}

closed_set! {
    /// What became of a call that has no result.
    CallStatus {
        Failed = "failed",
        Denied = "denied",
        Cancelled = "cancelled",
        Uncertain = "uncertain",
    }
}

/// A failure as a model sees it: these six fields and no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolFailure<'a> {
    pub status: CallStatus,
    /// The name of the tool that was called.
    pub action: &'a str,
    pub reason_code: ReasonCode,
    pub message: &'static str,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    pub remediation: &'static str,
}

impl<'a> ToolFailure<'a> {
    pub const fn new(action: &'a str, reason: ReasonCode) -> Self {
        Self {
            status: reason.status(),
            action,
            reason_code: reason,
            message: reason.message(),
            retryable: reason.is_retryable(),
            remediation: reason.remediation(),
        }
    }
}

impl ReasonCode {
    pub const fn status(self) -> CallStatus {
        match self {
            Self::AuthorizationError | Self::ToolPolicyDenied | Self::ApprovalDenied | Self::ApprovalInvalidated => {
                CallStatus::Denied
            }
            Self::Cancelled => CallStatus::Cancelled,
            Self::Unknown => CallStatus::Uncertain,
            _ => CallStatus::Failed,
        }
    }

    pub const fn message(self) -> &'static str {
        match self {
            Self::ToolNotFound => "There is no such tool.",
            Self::AuthorizationError => "The run may not use this tool.",
            Self::InvalidArguments => "The arguments do not fit the tool's schema.",
            Self::TruncatedTurn => "The turn was cut off at its token limit; nothing of it was executed.",
            Self::ToolPolicyDenied => "The policy does not allow this call.",
            Self::ApprovalDenied => "A person denied this call.",
            Self::ApprovalInvalidated => "The approval of this call is void, since what it was given for has changed.",
            Self::ToolTimeout => "The tool did not answer in time.",
            Self::ToolExecutionError => "The tool could not do it.",
            Self::ToolResultInvalid => "The tool's result was not what it promises.",
            Self::ToolOutputTooLarge => "The tool's result was too large, and was cut off.",
            Self::ArtifactStorageError => "The bytes could not be stored.",
            Self::NotConfigured => "The tool is not set up here.",
            Self::Cancelled => "The run ended before this call was made.",
            Self::Unknown => "Whether the call had its effect is unknown.",
            Self::ExpressionInvalid => "The expression is not understood.",
            Self::NumberOutOfRange => "A number has more than 28 digits, or an exponent is not an integer of at most 999.",
            Self::DivisionByZero => "Division by zero.",
            Self::TimezoneUnknown => "The time zone is not an IANA name.",
            Self::ArtifactInvalid => "The name, the media type or the encoding of the artifact is not valid.",
        }
    }

    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::ToolTimeout | Self::ToolExecutionError | Self::ArtifactStorageError | Self::TruncatedTurn)
    }

    pub const fn remediation(self) -> &'static str {
        match self {
            Self::ToolNotFound | Self::NotConfigured => "Use one of the tools that you were given.",
            Self::AuthorizationError | Self::ToolPolicyDenied => {
                "Do not try this again; go on without it, or say that it is not allowed."
            }
            Self::InvalidArguments => "Send one JSON object that fits the schema.",
            Self::TruncatedTurn => "Ask for less in one turn.",
            Self::ApprovalDenied => "Do not ask for the same again; go on without it.",
            Self::ApprovalInvalidated => "It was not done. If it is still wanted, call the tool again, and it is asked for anew.",
            Self::ToolTimeout | Self::ToolExecutionError | Self::ArtifactStorageError => "Try once more, or go on without it.",
            Self::ToolResultInvalid => "Go on without it.",
            Self::ToolOutputTooLarge => "Ask for less.",
            Self::Cancelled => "It was not done. Call the tool again if it is still wanted.",
            Self::Unknown => "Do not repeat it. Find out whether it was done, or say that this is not known.",
            Self::ExpressionInvalid => "Use numbers, + - * / % ^ and parentheses.",
            Self::NumberOutOfRange | Self::DivisionByZero => "Use another expression.",
            Self::TimezoneUnknown => "Use a name such as Europe/Berlin.",
            Self::ArtifactInvalid => "Use a short file name without path, and a media type such as text/plain.",
        }
    }
}

#[cfg(test)]
mod tests;
