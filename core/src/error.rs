//! The one vocabulary of what can go wrong.
//!
//! Services return [`Error`] and know nothing of HTTP or exit codes: the API and the command line each map [`Code`] once,
//! exhaustively. `Display` is for a person and never repeats its source; the chain is logged where the error is handled.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::approvals::ApprovalStatus;
use crate::events::Decision;
use crate::runs::RunStatus;
use crate::scope::Scope;

/// What a service answers when it cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Missing and wrong credentials are told apart by nobody.
    #[error("credentials are missing or not valid")]
    Authentication,
    #[error("the scope `{0}` is required")]
    Authorization(Scope),
    /// The policy of the call wants another person's eyes on it.
    #[error("whoever asked for this may not approve it")]
    SelfApproval,
    /// A foreign `Origin`: the browser of somebody else is asking.
    #[error("this origin may not change anything here")]
    ForeignOrigin,
    /// Missing and foreign are told apart by nobody.
    #[error("no such {0}")]
    NotFound(Resource),
    #[error("{0}")]
    Conflict(Conflict),
    #[error("the run is {0}, which does not allow this")]
    InvalidStateTransition(RunStatus),
    /// Nobody may decide it any more, and nobody did.
    #[error("the approval is {0}, which does not allow this")]
    ApprovalClosed(ApprovalStatus),
    /// The database would not settle who comes first, repeatedly.
    #[error("others were changing the same thing; try again")]
    ConcurrencyConflict,
    #[error("the request is malformed")]
    Malformed(Vec<Problem>),
    #[error("a body must be `application/json`")]
    UnsupportedMediaType,
    #[error("the body is larger than {limit_bytes} bytes")]
    PayloadTooLarge { limit_bytes: usize },
    #[error("this route does not know that method")]
    MethodNotAllowed,
    #[error("this server does not answer for that host")]
    Misdirected,
    #[error("too many {0} at once; try again")]
    RateLimited(Cap),
    #[error("the service cannot answer right now; try again")]
    Unavailable {
        retry_after_seconds: u32,
        #[source]
        source: Option<sqlx::Error>,
    },
    /// The row is there, and its bytes are not to be had.
    #[error("the bytes of artifact {id} cannot be read")]
    ArtifactStorage {
        id: Uuid,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A defect or a broken invariant: the caller learns nothing, operators find the chain in the log.
    #[error("an internal error")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What there may be only so many of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// Open streams of one principal.
    Streams,
    /// Runs of one tenant that wait for a worker.
    QueuedRuns,
}

impl Cap {
    /// When to come back: a queue moves by itself, a stream ends when its client wants it to.
    pub const fn retry_after_seconds(self) -> u32 {
        match self {
            Self::Streams => 10,
            Self::QueuedRuns => 2,
        }
    }
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Streams => "open streams",
            Self::QueuedRuns => "queued runs",
        })
    }
}

/// What was asked for and is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Agent,
    Approval,
    Artifact,
    Question,
    Route,
    Run,
    Session,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::Approval => "approval",
            Self::Artifact => "artifact",
            Self::Question => "question",
            Self::Route => "route",
            Self::Run => "run",
            Self::Session => "session",
        })
    }
}

/// The state of the resource is in the way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("the session has a run that is not finished")]
    ActiveRun { run_id: Uuid, status: RunStatus },
    #[error("the idempotency key was used for another request")]
    IdempotencyKeyReused,
    #[error("the cursor is beyond the end of the log")]
    CursorAhead { head: i64 },
    #[error("the approval was resolved otherwise: {decision}")]
    ApprovalAlreadyResolved { approval_id: Uuid, decision: Decision },
    #[error("the question was answered otherwise")]
    QuestionAlreadyAnswered,
    #[error("the session is closed")]
    SessionClosed,
}

/// One thing that is wrong with a request: where (a JSON pointer, a header or a parameter) and what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Problem {
    pub path: String,
    pub message: String,
}

impl Error {
    pub fn internal(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal(source.into())
    }

    /// One problem, at one place.
    pub fn malformed(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Malformed(vec![Problem { path: path.into(), message: message.into() }])
    }

    pub fn code(&self) -> Code {
        match self {
            Self::Authentication => Code::AuthenticationError,
            Self::Authorization(_) | Self::SelfApproval | Self::ForeignOrigin => Code::AuthorizationError,
            Self::NotFound(_) => Code::NotFound,
            Self::Conflict(_) => Code::Conflict,
            Self::InvalidStateTransition(_) | Self::ApprovalClosed(_) => Code::InvalidStateTransition,
            Self::ConcurrencyConflict => Code::ConcurrencyConflict,
            Self::Malformed(_) => Code::MalformedRequest,
            Self::UnsupportedMediaType => Code::UnsupportedMediaType,
            Self::PayloadTooLarge { .. } => Code::PayloadTooLarge,
            Self::MethodNotAllowed => Code::MethodNotAllowed,
            Self::Misdirected => Code::MisdirectedRequest,
            Self::RateLimited(_) => Code::RateLimited,
            Self::Unavailable { .. } => Code::ServiceUnavailable,
            Self::ArtifactStorage { .. } => Code::ArtifactStorageError,
            Self::Internal(_) => Code::InternalError,
        }
    }

    /// The `details` of the envelope: `{}` except where a client can act on more.
    pub fn details(&self) -> Value {
        match self {
            Self::Conflict(Conflict::ActiveRun { run_id, status }) => {
                json!({"reason": "active_run_exists", "run_id": run_id, "run_status": status})
            }
            Self::Conflict(Conflict::IdempotencyKeyReused) => json!({"reason": "idempotency_key_reused"}),
            Self::Conflict(Conflict::CursorAhead { head }) => json!({"reason": "cursor_ahead", "head": head}),
            Self::Conflict(Conflict::SessionClosed) => json!({"reason": "session_closed"}),
            Self::Conflict(Conflict::ApprovalAlreadyResolved { approval_id, decision }) => {
                json!({"reason": "approval_already_resolved", "approval_id": approval_id, "decision": decision})
            }
            Self::Conflict(Conflict::QuestionAlreadyAnswered) => json!({"reason": "question_already_answered"}),
            Self::ApprovalClosed(status) => json!({"status": status}),
            Self::InvalidStateTransition(status) => json!({"status": status}),
            Self::Malformed(problems) => json!({"errors": problems}),
            Self::RateLimited(cap) => json!({"retry_after_seconds": cap.retry_after_seconds()}),
            Self::Unavailable { retry_after_seconds, .. } => json!({"retry_after_seconds": retry_after_seconds}),
            _ => json!({}),
        }
    }
}

/// An error and its sources, each once: for logs, some forms of which show no sources.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}

/// Long enough for a pool to drain or a database to come back, short enough to be tried by hand.
const RETRY_AFTER_SECONDS: u32 = 2;

impl From<sqlx::Error> for Error {
    /// Whatever means "the database is not there for us" is 503; the rest is a defect, since every constraint that a caller
    /// can violate is mapped by name where the statement is called.
    fn from(error: sqlx::Error) -> Self {
        let unavailable = match &error {
            // Protocol: what a connection looks like that ends in the middle of its handshake.
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => true,
            // 08: connection, 53: resources, 57: operator intervention and time-outs, 25006: read-only standby.
            sqlx::Error::Database(database) => database.code().is_some_and(|code| {
                code.starts_with("08") || code.starts_with("53") || code.starts_with("57") || code == "25006"
            }),
            _ => false,
        };
        if unavailable {
            Self::Unavailable { retry_after_seconds: RETRY_AFTER_SECONDS, source: Some(error) }
        } else {
            Self::internal(error)
        }
    }
}

macro_rules! codes {
    ($($variant:ident = $text:literal,)*) => {
        /// The closed set of codes on the wire. A code never disappears and never changes its meaning; those that no
        /// service returns are the vocabulary of tool results and failures, reserved here.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($variant,)* }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

codes! {
    AuthenticationError = "authentication_error",
    AuthorizationError = "authorization_error",
    NotFound = "not_found",
    Conflict = "conflict",
    InvalidStateTransition = "invalid_state_transition",
    ConcurrencyConflict = "concurrency_conflict",
    ToolNotFound = "tool_not_found",
    ToolValidationError = "tool_validation_error",
    ToolPolicyDenied = "tool_policy_denied",
    ToolTimeout = "tool_timeout",
    ToolExecutionError = "tool_execution_error",
    ToolResultInvalid = "tool_result_invalid",
    ApprovalRequired = "approval_required",
    ApprovalDenied = "approval_denied",
    ApprovalExpired = "approval_expired",
    RateLimited = "rate_limited",
    ServiceUnavailable = "service_unavailable",
    InternalError = "internal_error",
    BudgetExceeded = "budget_exceeded",
    DeadlineExceeded = "deadline_exceeded",
    RunDeadlineExceeded = "run_deadline_exceeded",
    RunCancelled = "run_cancelled",
    ContextOverflow = "context_overflow",
    ToolLoopDetected = "tool_loop_detected",
    ModelTransientError = "model_transient_error",
    ModelPermanentError = "model_permanent_error",
    ModelProtocolError = "model_protocol_error",
    SandboxProvisionError = "sandbox_provision_error",
    SandboxExecutionError = "sandbox_execution_error",
    ArtifactStorageError = "artifact_storage_error",
    MalformedRequest = "malformed_request",
    UnsupportedMediaType = "unsupported_media_type",
    PayloadTooLarge = "payload_too_large",
    MethodNotAllowed = "method_not_allowed",
    MisdirectedRequest = "misdirected_request",
    NotImplemented = "not_implemented",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
