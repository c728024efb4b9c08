//! `http.fetch`: `{"url"}` to `{"status", "url", "content_type", "text", "truncated"}`. A GET through the outbound guard, without
//! credentials, from hosts that the operator has named.

mod hosts;

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue, LOCATION, USER_AGENT};
use reqwest::{Method, Request, Response};
use serde_json::{Value, json};
use url::Url;

use crate::content;
use crate::outbound::{self, Client, Reach, SendError};
use crate::tools::failure::ReasonCode;
use crate::tools::http_fetch::hosts::Hosts;
use crate::tools::spec::{Idempotency, OutputTrust, Parallel, Risk, SideEffect, ToolKind, ToolSpec};
use crate::tools::tool::{Tool, ToolAnswer, ToolContext, text_argument};

const URL_CHARS_MAX: usize = 2_048;
const REDIRECTS_MAX: usize = 3;

/// Of a page that is read; what follows is left where it is.
const BODY_BYTES_MAX: usize = 64 * 1_024;

/// Of a page's text as JSON, where some characters take six bytes.
const TEXT_BYTES_MAX: usize = 96 * 1_024;

/// Of a content type; longer ones are left out.
const CONTENT_TYPE_BYTES_MAX: usize = 256;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("baton/", env!("CARGO_PKG_VERSION")));

#[derive(Debug)]
pub(super) struct HttpFetch {
    spec: ToolSpec,
    /// None: not set up.
    outside: Option<Outside>,
}

/// What there is for it beyond this machine.
#[derive(Debug)]
struct Outside {
    client: Client,
    hosts: Hosts,
}

impl HttpFetch {
    /// # Errors
    /// What is wrong with the hosts, or with the machine.
    pub(super) fn new(hosts: &[String]) -> Result<Self, String> {
        if hosts.is_empty() {
            return Ok(Self { spec: spec(), outside: None });
        }
        let client = Client::new(Reach::Public).map_err(|_| "http.fetch: this machine has no random numbers or no TLS")?;
        Self::over(client, hosts)
    }

    pub(super) fn over(client: Client, hosts: &[String]) -> Result<Self, String> {
        let hosts = Hosts::parse(hosts).map_err(|problem| format!("`tools.fetch_hosts`: {problem}"))?;
        Ok(Self { spec: spec(), outside: Some(Outside { client, hosts }) })
    }
}

fn spec() -> ToolSpec {
    let input_schema = json!({
        "type": "object",
        "properties": {"url": {
            "type": "string", "minLength": 1, "maxLength": URL_CHARS_MAX,
            "description": "https://host/path; not every host may be read",
        }},
        "required": ["url"],
        "additionalProperties": false,
    });
    let output_schema = json!({
        "type": "object",
        "properties": {
            "status": {"type": "integer"},
            "url": {"type": "string", "description": "Where the text is from, after redirects"},
            "content_type": {"type": ["string", "null"]},
            "text": {"type": "string"},
            "truncated": {"type": "boolean"},
        },
        "required": ["status", "url", "content_type", "text", "truncated"],
        "additionalProperties": false,
    });
    ToolSpec {
        name: "http.fetch",
        version: "1",
        description: "Reads a page of the web.",
        input_schema,
        output_schema: Some(output_schema),
        side_effect: SideEffect::NetworkRead,
        risk: Risk::Low,
        idempotency: Idempotency::ReadOnly,
        required_scopes: &[],
        timeout: Duration::from_secs(30),
        max_output_bytes: 128 * 1_024,
        parallel: Parallel::Allowed,
        kind: ToolKind::Capability,
        output_trust: OutputTrust::ExternalUntrusted,
    }
}

impl Tool for HttpFetch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: &'a Value, _: ToolContext<'a>) -> BoxFuture<'a, Result<ToolAnswer, ReasonCode>> {
        async move {
            let outside = self.outside.as_ref().ok_or(ReasonCode::NotConfigured)?;
            let url = outbound::web_url(text_argument(arguments, "url")?).map_err(|_| ReasonCode::InvalidArguments)?;
            let (response, url) = outside.follow(url).await?;
            Ok(ToolAnswer::value(page(response, &url).await?))
        }
        .boxed()
    }
}

impl Outside {
    /// The answer at the end of the redirects, and where that is.
    async fn follow(&self, mut url: Url) -> Result<(Response, Url), ReasonCode> {
        for _ in 0..=REDIRECTS_MAX {
            // A fragment is for who reads the page.
            url.set_fragment(None);
            let response = self.get(&url).await?;
            match target(&response, &url)? {
                None => return Ok((response, url)),
                Some(next) => url = next,
            }
        }
        Err(ReasonCode::ToolExecutionError)
    }

    async fn get(&self, url: &Url) -> Result<Response, ReasonCode> {
        if !self.hosts.hold(url) {
            return Err(ReasonCode::ToolPolicyDenied);
        }
        let mut request = Request::new(Method::GET, url.clone());
        request.headers_mut().insert(USER_AGENT, AGENT);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/*, application/json, */*;q=0.1"));
        self.client.send(request).await.map_err(|error| match error {
            SendError::Url(_) | SendError::Refused(_) => ReasonCode::ToolPolicyDenied,
            SendError::TimedOut => ReasonCode::ToolTimeout,
            SendError::Unresolved | SendError::Unconnected | SendError::Broken => ReasonCode::ToolExecutionError,
        })
    }
}

/// Where a redirect leads. None: it is the answer itself.
fn target(response: &Response, url: &Url) -> Result<Option<Url>, ReasonCode> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    let next = location.to_str().ok().and_then(|location| url.join(location).ok());
    next.map(Some).ok_or(ReasonCode::ToolExecutionError)
}

async fn page(mut response: Response, url: &Url) -> Result<Value, ReasonCode> {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| ReasonCode::ToolExecutionError)? {
        body.extend_from_slice(&chunk);
        if body.len() > BODY_BYTES_MAX {
            break;
        }
    }
    let (text, truncated) = text(&body);
    Ok(json!({
        "status": status,
        "url": url.as_str(),
        "content_type": content_type.filter(|content_type| content_type.len() <= CONTENT_TYPE_BYTES_MAX),
        "text": text,
        "truncated": truncated,
    }))
}

/// As much as may be shown, and whether that is not all. What is not UTF-8 becomes U+FFFD, but for a character that the cut has split.
fn text(body: &[u8]) -> (String, bool) {
    let shown = &body[..body.len().min(BODY_BYTES_MAX)];
    let is_cut = shown.len() < body.len();
    let whole = match std::str::from_utf8(shown) {
        Err(error) if is_cut && error.error_len().is_none() => &shown[..error.valid_up_to()],
        _ => shown,
    };
    // Nor NUL, which no result may hold.
    let text = String::from_utf8_lossy(whole).replace('\0', "\u{fffd}");
    let (fitting, is_too_long) = content::fit(&text, TEXT_BYTES_MAX);
    (fitting.to_owned(), is_cut || is_too_long)
}

#[cfg(test)]
mod tests;
