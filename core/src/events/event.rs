//! The closed list of persisted events and their bodies.
//!
//! A body is a JSON object, compact, with its keys in code point order: fields are declared in that order, and a test holds
//! every type to it. Stored bodies are never rewritten; a changed shape gets a new schema version and an upcaster in
//! [`Event::decode`].

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use uuid::Uuid;

use crate::closed_set::closed_set;
use crate::content::ContentBlock;
use crate::runs::{Failure, Priority, RequeueCause, ResumeCause, Usage};
use crate::schema;

/// Bytes of a body; the schema's CHECK says the same.
pub const BODY_BYTES_MAX: usize = 256 * 1024;

/// The version that this program writes, for every type.
const SCHEMA_VERSION: i16 = 1;

/// Why a stored event could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("an event has a type that this program does not know")]
    UnknownType,
    #[error("an event `{event_type}` has schema version {version}, newer than this program")]
    NewerVersion { event_type: EventType, version: i16 },
    /// Without the parser's words, which quote what people and models said.
    #[error("the body of an event `{event_type}` does not decode, at column {column}")]
    Body { event_type: EventType, column: usize },
}

macro_rules! events {
    ($($(#[$meta:meta])* $variant:ident($body:ident) = $text:literal,)*) => {
        closed_set! {
            /// The name of an event on the wire and in the log.
            EventType { $($(#[$meta])* $variant = $text,)* }
        }

        /// One thing that happened.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Event { $($(#[$meta])* $variant($body),)* }

        impl Event {
            pub const fn event_type(&self) -> EventType {
                match self { $(Self::$variant(_) => EventType::$variant,)* }
            }

            /// The body as it is stored and sent.
            pub fn body(&self) -> String {
                let text = match self { $(Self::$variant(body) => serde_json::to_string(body),)* };
                text.expect("bodies hold only strings, numbers, lists and objects with string keys")
            }

            /// The type of each event with the schema of its body, for the document of the API.
            pub fn schemas(components: &mut Vec<(String, RefOr<Schema>)>) -> Vec<(EventType, RefOr<Schema>)> {
                $(<$body>::schemas(components);)*
                vec![$((EventType::$variant, <$body>::schema()),)*]
            }

            /// # Errors
            /// [`DecodeError`]: an unknown type or higher version is an error, never skipped.
            pub fn decode(event_type: &str, version: i16, body: &str) -> Result<Self, DecodeError> {
                let event_type: EventType = event_type.parse().map_err(|_| DecodeError::UnknownType)?;
                if version != SCHEMA_VERSION {
                    return Err(DecodeError::NewerVersion { event_type, version });
                }
                let decoded = match event_type { $(EventType::$variant => serde_json::from_str(body).map(Self::$variant),)* };
                decoded.map_err(|error: serde_json::Error| DecodeError::Body { event_type, column: error.column() })
            }
        }
    };
}

events! {
    SessionCreated(SessionCreated) = "session.created",
    SessionClosed(Nothing) = "session.closed",
    UserMessageCreated(UserMessageCreated) = "user.message.created",
    RunQueued(RunQueued) = "run.queued",
    RunClaimed(Nothing) = "run.claimed",
    RunStarted(Nothing) = "run.started",
    RunResumed(RunResumed) = "run.resumed",
    RunRequeued(RunRequeued) = "run.requeued",
    /// Every accepted cancel writes it; the end of the run follows when nothing holds it back.
    RunCancelRequested(RunCancelRequested) = "run.cancel_requested",
    ModelRequestStarted(ModelRequestStarted) = "model.request.started",
    ModelResponseCompleted(ModelResponseCompleted) = "model.response.completed",
    ModelResponseFailed(ModelResponseFailed) = "model.response.failed",
    /// Written with its `model.response.completed` whenever the turn has text, calls or not.
    AssistantMessageCompleted(AssistantMessageCompleted) = "assistant.message.completed",
    ToolCallProposed(ToolCallProposed) = "tool.call.proposed",
    ToolCallAuthorized(ToolCallDecided) = "tool.call.authorized",
    ToolCallDenied(ToolCallDecided) = "tool.call.denied",
    ToolCallStarted(ToolCallMarked) = "tool.call.started",
    ToolCallUncertain(ToolCallMarked) = "tool.call.uncertain",
    ToolCallCompleted(ToolCallCompleted) = "tool.call.completed",
    ToolCallFailed(ToolCallFailed) = "tool.call.failed",
    ApprovalRequested(ApprovalRequested) = "approval.requested",
    ApprovalResolved(ApprovalResolved) = "approval.resolved",
    ApprovalInvalidated(ApprovalInvalidated) = "approval.invalidated",
    ArtifactCreated(ArtifactCreated) = "artifact.created",
    RunWaitingForApproval(RunWaitingForApproval) = "run.waiting_for_approval",
    RunWaitingForUser(RunWaitingForUser) = "run.waiting_for_user",
    UserInputDelivered(UserInputDelivered) = "user.input.delivered",
    RunCompleted(RunEnded) = "run.completed",
    RunFailed(RunFailed) = "run.failed",
    RunCancelled(RunEnded) = "run.cancelled",
}

impl Event {
    pub const fn schema_version(&self) -> i16 {
        SCHEMA_VERSION
    }
}

impl EventType {
    /// Whether a run's stream ends after it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::RunCompleted | Self::RunFailed | Self::RunCancelled)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionCreated {
    pub agent_id: String,
    pub agent_version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserMessageCreated {
    pub content: Vec<ContentBlock>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunQueued {
    pub priority: Priority,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunResumed {
    pub after: ResumeCause,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunRequeued {
    pub cause: RequeueCause,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunCancelRequested {
    pub requested_by: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelRequestStarted {
    #[schema(minimum = 1)]
    pub attempt: u32,
    /// Charged until the answer says what it came to, and for good where nobody ever learns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub held: Option<Hold>,
    pub model: String,
    pub provider: String,
    #[schema(minimum = 1)]
    pub step: u32,
}

/// The most that a call of a model may use: what is sent, by estimate, and the answer at its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hold {
    /// US dollars; null where the call is unpriced.
    #[schema(required, schema_with = schema::usd_or_null)]
    pub cost_usd: Option<Decimal>,
    #[schema(minimum = 0)]
    pub input_tokens: i64,
    #[schema(minimum = 0)]
    pub output_tokens: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelResponseCompleted {
    #[schema(minimum = 1)]
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cost_source: Option<CostSource>,
    /// US dollars; null where the call is unpriced.
    #[schema(required, schema_with = schema::usd_or_null)]
    pub cost_usd: Option<Decimal>,
    pub message_index: u32,
    #[schema(minimum = 1)]
    pub step: u32,
    pub stop: Stop,
    pub text: String,
    pub tool_calls: Vec<ToolCall>,
    /// The text or an argument was cut to fit the body.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    pub usage: TokenUsage,
}

closed_set! {
    /// How what a call of a model has cost is known.
    CostSource {
        /// The provider said how many tokens.
        Reported = "reported",
        /// It did not: by what was sent and received.
        Estimated = "estimated",
        /// Nobody knows what became of the call: the most that it may have cost.
        Held = "held",
        /// There is no price.
        Unpriced = "unpriced",
    }
}

closed_set! {
    /// Why a model stopped.
    Stop {
        EndTurn = "end_turn",
        ToolUse = "tool_use",
        MaxTokens = "max_tokens",
        ContentFilter = "content_filter",
        Cancelled = "cancelled",
    }
}

impl Stop {
    /// Whether what the model said may not be all that it was about to say: no call of such a turn is made.
    pub const fn is_cut_off(self) -> bool {
        matches!(self, Self::MaxTokens | Self::ContentFilter)
    }
}

/// A call as the model asked for it. Identifier and arguments are the provider's, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCall {
    pub arguments_raw: String,
    pub call_id: String,
    pub index: u32,
    pub name: String,
}

/// Tokens of one call of a model, by class of price. `cached` and `cache_write` are parts of `input`, `reasoning` of `output`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenUsage {
    #[schema(required, minimum = 0)]
    pub cache_write_input_tokens: i64,
    #[schema(required, minimum = 0)]
    pub cached_input_tokens: i64,
    #[schema(required, minimum = 0)]
    pub input_tokens: i64,
    #[schema(required, minimum = 0)]
    pub output_tokens: i64,
    #[schema(required, minimum = 0)]
    pub reasoning_tokens: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelResponseFailed {
    #[schema(minimum = 1)]
    pub attempt: u32,
    pub code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cost_source: Option<CostSource>,
    /// US dollars; absent where the call is unpriced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::usd)]
    pub cost_usd: Option<Decimal>,
    pub retryable: bool,
    #[schema(minimum = 1)]
    pub step: u32,
    /// What the attempt is charged with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub usage: Option<TokenUsage>,
}

impl ModelResponseFailed {
    /// Of an attempt that was cut off before the model had answered, and says nothing about the model.
    pub const INTERRUPTED: &'static str = "interrupted";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AssistantMessageCompleted {
    pub content: Vec<ContentBlock>,
    pub message_index: u32,
    #[schema(minimum = 1)]
    pub step: u32,
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCallProposed {
    /// Null where the model's text was not a JSON object.
    #[schema(value_type = Option<Object>, required)]
    pub arguments: Value,
    pub call_id: String,
    pub invocation_id: Uuid,
    pub name: String,
    #[schema(minimum = 1)]
    pub step: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCallDecided {
    pub call_id: String,
    pub invocation_id: Uuid,
    pub policy_version: String,
    pub reason_code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCallMarked {
    pub call_id: String,
    pub invocation_id: Uuid,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCallCompleted {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub artifact_id: Option<Uuid>,
    pub call_id: String,
    pub invocation_id: Uuid,
    pub result: Value,
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolCallFailed {
    pub call_id: String,
    pub invocation_id: Uuid,
    pub message: String,
    pub reason_code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalRequested {
    pub approval_id: Uuid,
    pub call_id: String,
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: OffsetDateTime,
    pub risk: String,
    pub tool_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalResolved {
    pub approval_id: Uuid,
    pub decision: Decision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub resolved_by: Option<String>,
}

closed_set! {
    /// How an approval ended.
    Decision {
        ApproveOnce = "approve_once",
        Deny = "deny",
        Expired = "expired",
        Cancelled = "cancelled",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalInvalidated {
    pub approval_id: Uuid,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactCreated {
    pub artifact_id: Uuid,
    pub media_type: String,
    pub name: String,
    #[schema(minimum = 0)]
    pub size_bytes: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunWaitingForApproval {
    pub approval_ids: Vec<Uuid>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunWaitingForUser {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub choices: Option<Vec<String>>,
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: OffsetDateTime,
    pub question: String,
    pub question_id: Uuid,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserInputDelivered {
    pub content: Vec<ContentBlock>,
    pub question_id: Uuid,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunEnded {
    pub usage: Usage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunFailed {
    pub failure: Failure,
    pub usage: Usage,
}

#[cfg(test)]
mod tests;
