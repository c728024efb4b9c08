//! A provider that is a server somewhere. One call is one request: whoever asks decides whether to ask again.

use std::sync::Arc;
use std::time::Duration;

use baton_core::config::ProviderKind;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use crate::models::account::Account;
use crate::models::outgoing::Outgoing;
use crate::models::reading::{Reader, Reading};
use crate::models::tool_names::ToolNames;
use crate::models::transport::Broken;
use crate::models::{Failure, ModelError, ModelEvent, ModelProvider, ModelRequest, ModelStream};
use crate::models::{anthropic, failure, openai_chat, openai_responses, transport};

/// A server that sends nothing for so long, not even a comment, is gone. One that thinks for longer says so, by comments, pings or
/// pieces of what it keeps sealed: they are life, though nothing of the answer. As long waits the guard, for an answer to begin.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Once the model has stopped, only its usage can follow; some servers leave the connection open instead.
const USAGE_WAIT: Duration = Duration::from_secs(5);

/// A model of a provider.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) account: Arc<Account>,
    pub(super) model: String,
    pub(super) temperature: Option<f64>,
}

impl ModelProvider for Remote {
    fn name(&self) -> &'static str {
        self.kind().as_str()
    }

    fn is_barred(&self) -> bool {
        self.account.is_barred()
    }

    fn answer(&self, request: ModelRequest) -> ModelStream {
        let names = ToolNames::new(&request.tools);
        let Ok(headers) = self.account.headers() else {
            return ended(Failure { is_unsent: true, ..ModelError::Permanent.into() });
        };
        let body = self.body(&request, &names).to_string().into_bytes();
        let (account, model) = (Arc::clone(&self.account), self.model.clone());
        let reply = transport::post(account.client.clone(), self.url(), headers, body);
        let (reader, out) = (self.reader(names), Outgoing::new(request.step));
        Box::pin(async_stream::stream! {
            let mut events = match reply.await {
                Err(failure) => ended(failure),
                Ok(mut reply) if !(200..300).contains(&reply.status) => {
                    // Of what it says only this: it may say our key.
                    tracing::warn!(provider = account.provider, model, status = reply.status, "a provider refused a request");
                    let refusal = reply.beginning().await;
                    ended(failure::of_status(reply.status, &reply.headers, &refusal))
                }
                Ok(reply) => read(Reading::new(reader, out, transport::request_id(&reply.headers)), reply.body),
            };
            while let Some(event) = events.next().await {
                yield account.heard(event);
            }
        })
    }
}

fn ended(failure: Failure) -> ModelStream {
    Box::pin(futures::stream::iter([ModelEvent::Failed(failure)]))
}

/// An answer as its bytes come, to its end, or to a silence.
pub(super) fn read(mut reading: Reading, mut body: BoxStream<'static, Result<Bytes, Broken>>) -> ModelStream {
    Box::pin(async_stream::stream! {
        let mut stopped_at = None;
        while !reading.is_over() {
            let until = match reading.has_stopped() {
                true => *stopped_at.get_or_insert_with(Instant::now) + USAGE_WAIT,
                false => Instant::now() + SILENCE_MAX,
            };
            let events = match tokio::time::timeout_at(until, body.next()).await {
                Ok(Some(Ok(bytes))) => reading.push(&bytes),
                Ok(Some(Err(_)) | None) | Err(_) => reading.end(),
            };
            for event in events {
                yield event;
            }
        }
    })
}

impl Remote {
    fn kind(&self) -> ProviderKind {
        self.account.endpoint.kind
    }

    fn url(&self) -> Url {
        self.account.below(match self.kind() {
            ProviderKind::OpenaiChat => "chat/completions",
            ProviderKind::OpenaiResponses => "responses",
            ProviderKind::Anthropic => "messages",
        })
    }

    /// What the provider is asked. Pure: the same request is the same body, byte for byte.
    pub(super) fn body(&self, request: &ModelRequest, names: &ToolNames) -> Value {
        let mut body = match self.kind() {
            ProviderKind::OpenaiChat => openai_chat::body(request, names, openai_chat::output_limit_key(&self.url())),
            ProviderKind::OpenaiResponses => openai_responses::body(request, names),
            ProviderKind::Anthropic => anthropic::body(request, names),
        };
        body["model"] = self.model.as_str().into();
        if let Some(temperature) = self.temperature {
            body["temperature"] = temperature.into();
        }
        body
    }

    pub(super) fn reader(&self, names: ToolNames) -> Box<dyn Reader> {
        match self.kind() {
            ProviderKind::OpenaiChat => Box::new(openai_chat::ChatReader::new(names, self.account.endpoint.done_is_end)),
            ProviderKind::OpenaiResponses => Box::new(openai_responses::ResponsesReader::new(names)),
            ProviderKind::Anthropic => Box::new(anthropic::MessagesReader::new(names)),
        }
    }
}
