//! An agent as clients see it: what it is, not what it is told.

use serde::Serialize;

use crate::agents::definition::AgentDefinition;
use crate::runs::Limits;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentView {
    pub id: String,
    /// Of a session that is created now.
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
