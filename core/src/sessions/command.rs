//! What a caller asks of a session.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A new conversation with the current version of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateSession {
    pub agent_id: String,
    /// Stored and returned, never shown to a model; at most 8 KiB.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}
