//! Whether a provider would answer: it is asked for its list of models, which costs nothing.

use std::time::Duration;

use baton_core::config::ProviderKind;
use baton_core::error::chain;
use baton_core::models::Policy;

use crate::models::account::Accounts;
use crate::models::{json, transport};

/// For all of it. Somebody waits at a terminal.
const PATIENCE: Duration = Duration::from_secs(5);

/// What stands in the way of this policy's model, for people; nothing, where none is asked.
///
/// # Errors
/// A sentence without the provider's words.
pub async fn probe(policy: &Policy) -> Result<(), String> {
    let Some(endpoint) = &policy.endpoint else { return Ok(()) };
    let account = Accounts::default().of(&policy.provider, endpoint).map_err(|error| chain(&error))?;
    let Some(account) = account else { return Err("its key is missing".into()) };
    let headers = account.headers().map_err(|_| "its key is none")?;
    let asked = async {
        let reply = transport::get(&account.client, account.below("models"), headers).await;
        let mut reply = reply.map_err(|error| format!("it is not reached: {error}"))?;
        match reply.status {
            401 | 403 => Err("it refuses the key".into()),
            status @ 500.. => Err(format!("it is there and does not work (status {status})")),
            // Not everybody has a list, and only a small one names everything that it would answer to.
            200 if endpoint.kind == ProviderKind::OpenaiChat => Ok(json::parse(&reply.beginning().await)),
            _ => Ok(None),
        }
    };
    let listed = tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err("it does not answer".into()))?;
    let models = listed.iter().flat_map(|listed| json::list(listed, "data")).filter_map(|model| json::text(model, "id"));
    let models: Vec<&str> = models.collect();
    let is_there = models.is_empty() || models.iter().any(|model| model.starts_with(&policy.model));
    if is_there { Ok(()) } else { Err(format!("it has no model `{}`", policy.model)) }
}
