//! Keys of providers: read from the environment by whoever calls a provider, and kept where nothing prints them.

use secrecy::SecretString;

use crate::models::policy::{Endpoint, Policies};

/// The keys that are not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct MissingKeys(pub Vec<String>);

/// The key of a provider. An empty variable is none, and so is what no header can hold.
pub fn key_of(endpoint: &Endpoint, variable: impl Fn(&str) -> Option<String>) -> Option<SecretString> {
    let key = variable(endpoint.api_key_env.as_deref()?)?;
    let key = key.trim();
    let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
    is_key.then(|| SecretString::from(key))
}

/// What to do about a key that is needed and is none.
pub fn missing_key(endpoint: &Endpoint, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let name = endpoint.api_key_env.as_deref()?;
    let is_set = variable(name).is_some_and(|value| !value.trim().is_empty());
    let advice = if is_set { " again, to the key alone" } else { "" };
    key_of(endpoint, variable).is_none().then(|| format!("set {name}{advice}"))
}

/// Whether every one of these policies can be used: a worker that could not execute its agents' runs is not to start.
///
/// # Errors
/// [`MissingKeys`]: which variable to set, for whom.
pub fn require_keys<'a>(
    policies: &Policies,
    used: impl Iterator<Item = &'a str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(), MissingKeys> {
    let mut missing = Vec::new();
    for policy in used.filter_map(|name| policies.get(name)) {
        let Some(endpoint) = &policy.endpoint else { continue };
        if let Some(advice) = missing_key(endpoint, &variable) {
            missing.push(format!("the model policy `{}` needs the key of `{}`: {advice}", policy.name, policy.provider));
        }
    }
    missing.sort();
    missing.dedup();
    if missing.is_empty() { Ok(()) } else { Err(MissingKeys(missing)) }
}
