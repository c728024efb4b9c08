//! The layer of the agent, a part of its file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::policy::decide::{Action, Effect, Verdict};
use crate::policy::tool_name::{TOOL_NAME, is_tool_name};
use crate::tools::SideEffect;

/// Decisions that an agent adds to those of its profile. An `allow` here changes nothing: the stricter layer wins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentPolicy {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub classes: BTreeMap<SideEffect, Effect>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, Effect>,
}

impl AgentPolicy {
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.tools.is_empty()
    }

    pub(crate) fn problems(&self) -> Vec<Problem> {
        let unnamed = self.tools.keys().filter(|name| !is_tool_name(name));
        unnamed.map(|name| Problem { path: format!("/policy/tools/{name}"), message: TOOL_NAME.into() }).collect()
    }

    /// None where the agent says nothing of it.
    pub(super) fn verdict(&self, action: &Action<'_>) -> Option<Verdict> {
        let effect = self.classes.get(&action.side_effect).max(self.tools.get(action.tool_name)).copied()?;
        Some(Verdict { effect, explanation: format!("The agent's own policy {} this call.", effect.verb()) })
    }
}
