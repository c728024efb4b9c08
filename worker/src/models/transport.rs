//! The one place where a provider is spoken to over HTTP, through the guard. Says nothing of address, headers and bodies to anybody.

use std::time::Duration;

use baton_core::outbound::{Client, SendError};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Request};
use url::Url;

use crate::models::{Failure, ModelError};

/// Of what is no stream only so much is read, and waited for so long.
const BEGINNING_BYTES_MAX: usize = 64 * 1024;
const BEGINNING_TIMEOUT: Duration = Duration::from_secs(5);

const REQUEST_ID_CHARS_MAX: usize = 128;

/// A connection that broke.
#[derive(Debug, Clone, Copy)]
pub(super) struct Broken;

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: BoxStream<'static, Result<Bytes, Broken>>,
}

/// # Errors
/// Said to the log; what it means for the call is in the failure.
pub(super) async fn post(client: Client, url: Url, headers: HeaderMap, body: Vec<u8>) -> Result<Reply, Failure> {
    let mut request = Request::new(Method::POST, url);
    *request.headers_mut() = headers;
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    *request.body_mut() = Some(body.into());
    send(&client, request).await.map_err(|error| {
        tracing::warn!(%error, "a provider was not reached");
        let failure = if error.is_retryable() { ModelError::Transient } else { ModelError::Permanent };
        Failure { is_unsent: !error.may_be_sent(), ..failure.into() }
    })
}

pub(super) async fn get(client: &Client, url: Url, headers: HeaderMap) -> Result<Reply, SendError> {
    let mut request = Request::new(Method::GET, url);
    *request.headers_mut() = headers;
    send(client, request).await
}

async fn send(client: &Client, request: Request) -> Result<Reply, SendError> {
    let reply = client.send(request).await?;
    Ok(Reply {
        status: reply.status().as_u16(),
        headers: reply.headers().clone(),
        body: reply.bytes_stream().map_err(|_| Broken).boxed(),
    })
}

impl Reply {
    /// The beginning of a body that is no stream, as far as it comes.
    pub(super) async fn beginning(&mut self) -> String {
        let mut text = Vec::new();
        let reading = async {
            while let Some(Ok(bytes)) = self.body.next().await {
                text.extend_from_slice(&bytes[..bytes.len().min(BEGINNING_BYTES_MAX - text.len())]);
                if text.len() == BEGINNING_BYTES_MAX {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(BEGINNING_TIMEOUT, reading).await; // what there is has to do
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// A provider's name for a call.
pub(super) fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("x-request-id").or_else(|| headers.get("request-id"))?.to_str().ok()?;
    plausible_id(id)
}

/// Something that may be stored and shown as an identifier.
pub(super) fn plausible_id(id: &str) -> Option<String> {
    let is_plausible = (1..=REQUEST_ID_CHARS_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    is_plausible.then(|| id.to_owned())
}
