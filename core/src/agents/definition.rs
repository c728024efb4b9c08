//! An agent's file.

use serde::{Deserialize, Serialize};

use crate::agents::script::Script;
use crate::canonical;
use crate::error::Problem;
use crate::models::{Policies, SCRIPTED};
use crate::policy::{AgentPolicy, Profiles};
use crate::runs::Limits;

/// Everything that an agent is. Unknown keys refuse to load; a tool that this build does not have loads, and calling it
/// answers `tool_not_found`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentDefinition {
    pub id: String,
    pub version: String,
    pub name: String,
    #[serde(default)]
    pub instructions: String,
    /// The name of a model policy; `scripted` is built in.
    pub model: String,
    #[serde(default)]
    pub tools: Vec<String>,
    #[serde(default = "default_profile")]
    pub policy_profile: String,
    /// What this agent is not to do although its profile would let it. It can only tighten.
    #[serde(default, skip_serializing_if = "AgentPolicy::is_empty")]
    pub policy: AgentPolicy,
    #[serde(default)]
    pub limits: Limits,
    /// What the policy `scripted` plays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub script: Vec<Script>,
}

fn default_profile() -> String {
    "default".into()
}

impl AgentDefinition {
    /// Parses a file. The message is of the parser, and names line and key.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// Everything that is wrong with it, at once.
    pub(super) fn problems(&self, profiles: &Profiles, policies: &Policies) -> Vec<Problem> {
        let mut problems = self.limits.problems();
        problems.extend(self.policy.problems());
        let mut require = |holds: bool, path: &str, message: &str| {
            if !holds {
                problems.push(Problem { path: path.into(), message: message.into() });
            }
        };
        require(is_agent_id(&self.id), "/id", "1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit");
        require(is_version(&self.version), "/version", "1 to 64 of letters, digits, `.`, `_`, `+` and `-`");
        let policy = policies.get(&self.model);
        let is_scripted = policy.is_some_and(|policy| policy.provider == SCRIPTED);
        let offered = policies.all().map(|policy| format!("`{}`", policy.name)).collect::<Vec<_>>().join(", ");
        require(
            policy.is_some(),
            "/model",
            &format!(
                "a model policy: {offered}, or another `[models.<name>]` of the configuration; `agentctl dev` makes `assistant` of a key"
            ),
        );
        require(!is_scripted || !self.script.is_empty(), "/script", "at least one script for the provider `scripted`");
        require(
            self.limits.max_cost_usd.is_none() || policy.is_none_or(|policy| policy.prices.is_some()),
            "/limits/max_cost_usd",
            "needs a model policy with prices",
        );
        require(profiles.holds(&self.policy_profile), "/policy_profile", "a known profile; `default` is built in");
        for (index, script) in self.script.iter().enumerate() {
            problems.extend(script.problems(index));
        }
        problems
    }

    /// The canonical text, which is what is hashed and stored.
    pub(super) fn canonical_text(&self) -> Result<String, String> {
        let value = serde_json::to_value(self).map_err(|error| error.to_string())?;
        canonical::text(&value).map_err(|error| error.to_string())
    }
}

fn is_agent_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-')
        && !id.starts_with(['_', '-'])
}

fn is_version(version: &str) -> bool {
    (1..=64).contains(&version.len()) && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte))
}
