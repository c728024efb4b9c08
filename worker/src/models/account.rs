//! What we are at a provider: where it is, the key that it knows us by, and whether it has just refused that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_core::Error;
use baton_core::config::ProviderKind;
use baton_core::models::{Endpoint, key_of};
use baton_core::outbound::Client;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;
use url::Url;

use crate::models::anthropic;

use crate::models::{Completion, Failure, ModelError, ModelEvent};

/// How long nobody is asked who has refused our credential. Who repairs it, or pays, takes longer; a new key comes with a new worker.
const PAUSE: Duration = Duration::from_secs(60);

/// Bytes of a key that is a secret. Servers of one's own are given `x` or `EMPTY`, which stand in other words too.
const SECRET_BYTES_MIN: usize = 16;

/// Shared by all policies that ask this provider.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) provider: String,
    pub(super) endpoint: Endpoint,
    pub(super) key: Option<SecretString>,
    pub(super) client: Client,
    refused_at: Mutex<Option<Instant>>,
}

impl Account {
    pub(super) fn new(provider: &str, endpoint: Endpoint, key: Option<SecretString>, client: Client) -> Self {
        Self { provider: provider.to_owned(), endpoint, key, client, refused_at: Mutex::default() }
    }

    pub(super) fn below(&self, path: &str) -> Url {
        let base = &self.endpoint.base;
        // Anthropic documents its address without the version, which people write there all the same.
        let is_versioned = base.below("").path().trim_end_matches('/').ends_with("/v1");
        let lacks_version = self.endpoint.kind == ProviderKind::Anthropic && !is_versioned;
        if lacks_version { base.below(&format!("v1/{path}")) } else { base.below(path) }
    }

    /// The key, never to be shown, and what else the provider wants in front of a request.
    pub(super) fn headers(&self) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        if self.endpoint.kind == ProviderKind::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
        }
        if let Some(key) = &self.key {
            let key = key.expose_secret();
            let (name, value) = match self.endpoint.kind {
                ProviderKind::Anthropic => (HeaderName::from_static("x-api-key"), key.to_owned()),
                ProviderKind::OpenaiChat | ProviderKind::OpenaiResponses => (AUTHORIZATION, format!("Bearer {key}")),
            };
            let mut value = HeaderValue::try_from(value)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// What an event means for the account, and the event without what must not be stored.
    pub(super) fn heard(&self, mut event: ModelEvent) -> ModelEvent {
        match &mut event {
            ModelEvent::Completed(Completion { request_id, usage, .. }) => {
                request_id.take_if(|id| self.is_in(id));
                // No call uses nothing: that was not told.
                usage.take_if(|usage| (usage.input_tokens, usage.output_tokens) == (0, 0));
            }
            ModelEvent::Failed(Failure { request_id, .. }) => {
                request_id.take_if(|id| self.is_in(id));
            }
            ModelEvent::ToolCallDelta { call_id, name, .. } if self.is_in(call_id) || self.is_in(name) => {
                return ModelEvent::Failed(ModelError::Protocol.into());
            }
            _ => {}
        }
        if matches!(&event, ModelEvent::Failed(failure) if failure.error == ModelError::Credential) {
            self.bar();
        }
        event
    }

    /// Whether a text that would be stored has our key in it: an echo of what we sent.
    fn is_in(&self, text: &str) -> bool {
        let key = self.key.as_ref().map(ExposeSecret::expose_secret).filter(|key| key.len() >= SECRET_BYTES_MIN);
        key.is_some_and(|key| text.contains(key))
    }

    pub(super) fn is_barred(&self) -> bool {
        let refused_at = *self.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        refused_at.is_some_and(|refused_at| refused_at.elapsed() < PAUSE)
    }

    fn bar(&self) {
        tracing::warn!(provider = self.provider, "a provider refuses our credential, and is not asked for a minute");
        *self.refused_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

/// Accounts by the names of their providers. None: we have no key for it.
#[derive(Debug, Default)]
pub(super) struct Accounts(BTreeMap<String, Option<Arc<Account>>>);

impl Accounts {
    pub(super) fn of(&mut self, provider: &str, endpoint: &Endpoint) -> Result<Option<Arc<Account>>, Error> {
        if let Some(known) = self.0.get(provider) {
            return Ok(known.clone());
        }
        let key = key_of(endpoint, |name| std::env::var(name).ok());
        let account = if endpoint.api_key_env.is_some() && key.is_none() {
            None
        } else {
            let client = Client::new(endpoint.base.reach()).map_err(Error::internal)?;
            Some(Arc::new(Account::new(provider, endpoint.clone(), key, client)))
        };
        self.0.insert(provider.to_owned(), account.clone());
        Ok(account)
    }
}

#[cfg(test)]
mod tests;
