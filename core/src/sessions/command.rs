//! What a caller asks of a session.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A new conversation with the current version of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSession {
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$")]
    pub agent_id: String,
    /// Stored and returned, never shown to a model; at most 8 KiB.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
}
