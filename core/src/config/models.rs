//! Settings of models: who answers, and under which policy an agent asks. What they must be together is said in
//! [`crate::models`].

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::closed_set::closed_set;
use crate::models::SCRIPTED;

/// Tokens of an answer at most, where the policy does not say.
const MAX_OUTPUT_TOKENS: u32 = 4_096;

/// The built-in provider whose address is that of `OLLAMA_HOST`.
pub(crate) const OLLAMA: &str = "ollama";

/// Where Ollama listens unless `OLLAMA_HOST` says otherwise.
const OLLAMA_HOST: &str = "127.0.0.1";
const OLLAMA_PORT: &str = "11434";

closed_set! {
    /// What a provider speaks.
    ProviderKind {
        OpenaiChat = "openai_chat",
        OpenaiResponses = "openai_responses",
        Anthropic = "anthropic",
    }
}

/// Who answers, `[providers.<name>]`. Three are built in; a file adds to them, or changes what it names.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Providers(pub BTreeMap<String, Provider>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    pub kind: ProviderKind,
    pub base_url: String,
    /// The name of the variable that holds the key. None: it needs none.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// It may be on this machine or in a private network, and nowhere else.
    #[serde(default)]
    pub private_endpoint: bool,
    /// Of `openai_chat`: it never says why the model stopped, so a text that `[DONE]` ends is whole. Calls never are.
    #[serde(default)]
    pub done_is_end: bool,
}

/// How an agent asks a model, `[models.<name>]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The name of a provider; `scripted` plays the agent's own script.
    pub provider: String,
    /// The model's name there. `scripted` has only one.
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub temperature: Option<f64>,
    #[serde(default = "max_output_tokens")]
    pub max_output_tokens: u32,
    /// Tokens of request and answer together.
    #[serde(default)]
    pub context_window: Option<u32>,
    /// None: what a call costs is not known.
    #[serde(default)]
    pub prices: Option<Prices>,
}

/// US dollars for a million tokens, by class. Reasoning is output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub input: Decimal,
    /// None: as all input.
    #[serde(default)]
    pub cached_input: Option<Decimal>,
    /// None: as all input.
    #[serde(default)]
    pub cache_write_input: Option<Decimal>,
    pub output: Decimal,
}

fn max_output_tokens() -> u32 {
    MAX_OUTPUT_TOKENS
}

impl Default for Providers {
    fn default() -> Self {
        let hosted = |kind, base_url: &str, key: &str| Provider {
            kind,
            base_url: base_url.into(),
            api_key_env: Some(key.into()),
            private_endpoint: false,
            done_is_end: false,
        };
        let ollama = Provider {
            kind: ProviderKind::OpenaiChat,
            base_url: ollama_url(OLLAMA_HOST),
            api_key_env: None,
            private_endpoint: true,
            done_is_end: false,
        };
        Self(BTreeMap::from([
            ("openai".into(), hosted(ProviderKind::OpenaiResponses, "https://api.openai.com/v1", "OPENAI_API_KEY")),
            ("anthropic".into(), hosted(ProviderKind::Anthropic, "https://api.anthropic.com", "ANTHROPIC_API_KEY")),
            (OLLAMA.into(), ollama),
        ]))
    }
}

impl Model {
    /// The model that plays its agent's script; without prices, unless a policy of its own has them.
    pub(crate) fn scripted() -> Self {
        Self {
            provider: SCRIPTED.into(),
            model: None,
            temperature: None,
            max_output_tokens: MAX_OUTPUT_TOKENS,
            context_window: None,
            prices: None,
        }
    }
}

/// Where Ollama is, from what people set for its own programs: a scheme and a port may be missing, the path of the
/// API may be there, and the address may be the one that it listens on, every address, which nobody can call.
pub(super) fn ollama_url(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let host = host.strip_suffix("/v1").unwrap_or(host);
    let (scheme, authority) = host.split_once("://").unwrap_or(("http", host));
    if authority.parse::<Ipv6Addr>().is_ok() {
        return format!("{scheme}://[{authority}]:{OLLAMA_PORT}/v1");
    }
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if is_port(port) => (name, format!(":{port}")),
        _ if scheme == "http" => (authority, format!(":{OLLAMA_PORT}")),
        _ => (authority, String::new()),
    };
    let name = if name.is_empty() || name == "0.0.0.0" { "127.0.0.1" } else { name };
    format!("{scheme}://{name}{port}/v1")
}
