//! The provider that a developer's environment names: `dev` makes a model policy of it, so that there is an agent to talk to.

use baton_core::config::{Config, Model};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The policy, and the built-in agent that asks it.
pub(crate) const ASSISTANT: &str = "assistant";

/// What has to be set, the built-in provider that it is of, and a model there that answers fast and calls tools. The first one counts.
const PROVIDERS: [(&str, &str, &str); 3] = [
    ("OPENAI_API_KEY", "openai", "gpt-5-mini"),
    ("ANTHROPIC_API_KEY", "anthropic", "claude-sonnet-4-5"),
    ("OLLAMA_HOST", "ollama", "llama3.2"),
];

/// A model to ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    provider: String,
    model: String,
}

impl Found {
    /// By the configuration, which may name another, else by the environment.
    pub(crate) fn by(config: &Config, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        if let Some(policy) = config.models.get(ASSISTANT) {
            return Some(Self { provider: policy.provider.clone(), model: policy.model.clone().unwrap_or_default() });
        }
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.trim().is_empty());
        let (_, provider, model) = PROVIDERS.into_iter().find(|(name, ..)| is_set(name))?;
        Some(Self { provider: provider.into(), model: model.into() })
    }

    /// What is set beside the first, and not asked.
    pub(super) fn passed_over(config: &Config, variable: impl Fn(&str) -> Option<String>) -> Vec<&'static str> {
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.trim().is_empty());
        let is_configured = config.models.contains_key(ASSISTANT);
        PROVIDERS.into_iter().map(|(name, ..)| name).filter(|name| is_set(name)).skip(usize::from(!is_configured)).collect()
    }

    /// The policy.
    pub(crate) fn model(&self) -> Model {
        let policy = json!({"provider": self.provider, "model": self.model});
        serde_json::from_value(policy).expect("a policy of a provider and a model")
    }

    /// The settings by which API and workers have the policy, as variables.
    pub(super) fn variables(&self) -> [(&'static str, &str); 2] {
        [("BATON_MODELS__ASSISTANT__PROVIDER", &self.provider), ("BATON_MODELS__ASSISTANT__MODEL", &self.model)]
    }

    /// For people: who answers.
    pub(crate) fn label(&self) -> String {
        format!("{} by {}", self.model, self.provider)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_counts_before_the_environment_and_an_empty_variable_is_none() {
        let found = |config: &Config, set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            Found::by(config, value).map(|found| found.label())
        };
        let none = Config::default();
        assert_eq!(found(&none, &[]), None);
        assert_eq!(found(&none, &[("OPENAI_API_KEY", " ")]), None);
        let both = [("OLLAMA_HOST", "127.0.0.1"), ("ANTHROPIC_API_KEY", "secret")];
        assert_eq!(found(&none, &both).unwrap(), "claude-sonnet-4-5 by anthropic");
        let mut named = Config::default();
        let policy = serde_json::from_str(r#"{"provider": "ollama", "model": "qwen3"}"#).unwrap();
        named.models.insert(ASSISTANT.into(), policy);
        assert_eq!(found(&named, &both).unwrap(), "qwen3 by ollama");
    }
}
