//! An agent as clients see it: what it is, not what it is told.

use serde::Serialize;
use utoipa::ToSchema;

use crate::agents::definition::AgentDefinition;
use crate::runs::Limits;

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AgentView {
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$")]
    pub id: String,
    /// Of a session that is created now.
    #[schema(pattern = "^[A-Za-z0-9._+-]{1,64}$")]
    pub version: String,
    pub name: String,
    /// The name of its model policy.
    pub model: String,
    pub tools: Vec<String>,
    pub limits: Limits,
}

impl AgentView {
    pub(super) fn new(definition: &AgentDefinition, version: String) -> Self {
        Self {
            id: definition.id.clone(),
            version,
            name: definition.name.clone(),
            model: definition.model.clone(),
            tools: definition.tools.clone(),
            limits: definition.limits,
        }
    }
}
