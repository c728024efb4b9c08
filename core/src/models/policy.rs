//! The policies of a process: what the configuration says of models, checked as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{self, Config, OLLAMA, ProviderKind};
use crate::models::SCRIPTED;
use crate::models::prices::Prices;
use crate::outbound::{self, EndpointError, Reach};
use crate::runs::COST_USD_SCALE_MAX;
use rust_decimal::Decimal;

/// An answer of fewer tokens is not worth asking for.
pub const OUTPUT_TOKENS_MIN: u32 = 256;

const TEMPERATURE_MAX: f64 = 2.0;

/// US dollars for a million tokens that no model costs: beyond it somebody has mistaken the unit.
const PRICE_MAX: Decimal = Decimal::from_parts(1_000_000, 0, 0, false, 0);

const NAME_BYTES_MAX: usize = 64;
const MODEL_BYTES_MAX: usize = 256;

/// Why there are no policies. Every problem at once, and nothing of what stands there.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct PoliciesError(pub Vec<String>);

/// How a model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub name: String,
    /// The name of the provider, as events and rows have it.
    pub provider: String,
    /// The model's name there.
    pub model: String,
    /// None: `scripted`, which is not called but played.
    pub endpoint: Option<Endpoint>,
    pub temperature: Option<f64>,
    pub max_output_tokens: u32,
    /// Tokens of request and answer together.
    pub context_window: Option<u32>,
    pub prices: Option<Prices>,
}

/// Where a provider is, and how it is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub kind: ProviderKind,
    /// Its reach comes from the configuration, and from nowhere else.
    pub base: outbound::Endpoint,
    /// The name of the variable that holds its key.
    pub api_key_env: Option<String>,
    /// What is said to end with `[DONE]` has ended.
    pub done_is_end: bool,
}

/// Policies by name. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Policies(Arc<BTreeMap<String, Policy>>);

impl Default for Policies {
    /// `scripted` alone.
    fn default() -> Self {
        Self(Arc::new(BTreeMap::from([(SCRIPTED.into(), scripted(SCRIPTED, &config::Model::scripted()))])))
    }
}

impl Policies {
    /// # Errors
    /// [`PoliciesError`].
    pub fn new(config: &Config) -> Result<Self, PoliciesError> {
        let mut problems = Vec::new();
        let is_named = |name: &str| config.models.values().any(|model| model.provider == name);
        // Where nobody asks it, its address is nobody's mistake: `OLLAMA_HOST` is set for other programs.
        let providers = config.providers.0.iter().filter(|(name, _)| *name != OLLAMA || is_named(name));
        let endpoints: BTreeMap<&str, Option<Endpoint>> =
            providers.map(|(name, provider)| (name.as_str(), endpoint(name, provider, &mut problems))).collect();
        let mut policies = BTreeMap::from([(SCRIPTED.to_owned(), scripted(SCRIPTED, &config::Model::scripted()))]);
        for (name, model) in &config.models {
            check(name, model, &mut problems);
            let policy = if model.provider == SCRIPTED {
                scripted(name, model)
            } else {
                match endpoints.get(model.provider.as_str()) {
                    None => {
                        let known = config.providers.0.keys().map(|name| format!("`{name}`, ")).collect::<String>();
                        problems.push(format!("`models.{name}.provider`: {known}another of the configuration, or `scripted`"));
                        continue;
                    }
                    Some(endpoint) => Policy { endpoint: endpoint.clone(), ..scripted(name, model) },
                }
            };
            policies.insert(name.clone(), policy);
        }
        if problems.is_empty() { Ok(Self(Arc::new(policies))) } else { Err(PoliciesError(problems)) }
    }

    pub fn get(&self, name: &str) -> Option<&Policy> {
        self.0.get(name)
    }

    pub fn all(&self) -> impl Iterator<Item = &Policy> {
        self.0.values()
    }

    /// Whether what a call costs is known.
    pub fn is_priced(&self, name: &str) -> bool {
        self.get(name).is_some_and(|policy| policy.prices.is_some())
    }
}

/// A policy without an endpoint.
fn scripted(name: &str, model: &config::Model) -> Policy {
    Policy {
        name: name.to_owned(),
        provider: model.provider.clone(),
        model: model.model.clone().unwrap_or_else(|| SCRIPTED.into()),
        endpoint: None,
        temperature: model.temperature,
        max_output_tokens: model.max_output_tokens,
        context_window: model.context_window,
        prices: model.prices.map(Prices::from),
    }
}

fn endpoint(name: &str, provider: &config::Provider, problems: &mut Vec<String>) -> Option<Endpoint> {
    let mut require = |holds: bool, key: &str, message: &str| {
        if !holds {
            problems.push(format!("`providers.{name}{key}`: {message}"));
        }
    };
    require(is_name(name), "", NAME_FORM);
    require(name != SCRIPTED, "", "`scripted` is built in");
    let reach = if provider.private_endpoint { Reach::Private } else { Reach::Public };
    let base = outbound::Endpoint::parse(&provider.base_url, reach);
    if let Err(wrong) = &base {
        let is_ours =
            matches!(wrong, EndpointError::Unreachable(kind) if !provider.private_endpoint && Reach::Private.admits(*kind));
        let advice = if is_ours { " without `private_endpoint = true`" } else { "" };
        let origin = if name == OLLAMA { "; `OLLAMA_HOST` gives it, unless it is set" } else { "" };
        require(false, ".base_url", &format!("{wrong}{advice}{origin}"));
    }
    let names_variable = provider.api_key_env.as_ref().is_none_or(|variable| is_variable(variable));
    require(names_variable, ".api_key_env", "the name of a variable, not the key");
    let has_done = provider.kind == ProviderKind::OpenaiChat || !provider.done_is_end;
    require(has_done, ".done_is_end", "only a provider of the kind `openai_chat` may need it");
    Some(Endpoint {
        kind: provider.kind,
        base: base.ok()?,
        api_key_env: provider.api_key_env.clone(),
        done_is_end: provider.done_is_end,
    })
}

fn check(name: &str, model: &config::Model, problems: &mut Vec<String>) {
    let mut require = |holds: bool, key: &str, message: &str| {
        if !holds {
            problems.push(format!("`models.{name}{key}`: {message}"));
        }
    };
    require(is_name(name), "", NAME_FORM);
    require(name != SCRIPTED, "", "`scripted` is built in; a policy of another name may have `provider = \"scripted\"`");
    match &model.model {
        None => require(model.provider == SCRIPTED, ".model", "the model's name at its provider"),
        Some(model) => {
            let is_name = (1..=MODEL_BYTES_MAX).contains(&model.len()) && !model.contains(char::is_control);
            require(is_name, ".model", "1 to 256 bytes, without control characters");
        }
    }
    require(model.temperature.is_none_or(|value| (0.0..=TEMPERATURE_MAX).contains(&value)), ".temperature", "from 0 to 2");
    require(model.max_output_tokens >= OUTPUT_TOKENS_MIN, ".max_output_tokens", "at least 256");
    let fits = model.context_window.is_none_or(|window| window > model.max_output_tokens);
    require(fits, ".context_window", "more than `max_output_tokens`");
    let Some(prices) = &model.prices else { return };
    for (class, price) in [
        ("input", Some(prices.input)),
        ("cached_input", prices.cached_input),
        ("cache_write_input", prices.cache_write_input),
        ("output", Some(prices.output)),
    ] {
        let is_price =
            |price: Decimal| (Decimal::ZERO..=PRICE_MAX).contains(&price) && price.normalize().scale() <= COST_USD_SCALE_MAX;
        let form = "US dollars for a million tokens: zero or above, at most a million, at most ten decimals";
        require(price.is_none_or(is_price), &format!(".prices.{class}"), form);
    }
}

const NAME_FORM: &str = "a name of 1 to 64 of a-z, A-Z, 0-9, `_`, `-` and `.`";

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests;
