//! What a provider's refusal means for us. Of its words nothing leaves this file.

use std::time::Duration;

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::models::{Failure, ModelError, json, transport};

/// Longest wait that a provider may ask for: a run that waits keeps its slot.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// What servers say to a request that the model cannot read to its end, in lower case: OpenAI and vLLM, Anthropic, llama.cpp,
/// LM Studio, Ollama, Gemini, OpenRouter and xAI.
const OVERFLOWS: [&str; 16] = [
    "context_length_exceeded",
    "context length",
    "context_window_exceeded",
    "context window",
    "context limit",
    "context size",
    "exceed_context_size",
    "context the overflows",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "maximum prompt length",
    "maximum number of tokens allowed",
    "longer than the maximum model length",
    "request_too_large",
    "exceeds the maximum number of input tokens",
];

/// Somebody has to pay first. Of ordinary rate limits the prose speaks of quotas and billing too.
const UNPAID: [&str; 6] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "insufficient credits",
    "insufficient balance",
];

/// The key is none.
const UNKNOWN: [&str; 2] = ["invalid_api_key", "authentication_error"];

/// Somebody has to repair the request, or what the key may ask for.
const UNACCEPTABLE: [&str; 6] =
    ["invalid_request", "invalid_prompt", "bad_request", "badrequest", "permission_error", "not_found"];

/// An answer that is no answer: by its status, its headers, and its body where that is JSON.
pub(super) fn of_status(status: u16, headers: &HeaderMap, body: &str) -> Failure {
    let said = json::parse(body).unwrap_or(Value::Null);
    let said = said.get(0).unwrap_or(&said); // some have a list of one
    let error = classify(Some(status), said.get("error").unwrap_or(said));
    Failure { retry_after: retry_after(headers), request_id: transport::request_id(headers), ..error.into() }
}

/// The error that a message of a stream may be.
pub(super) fn in_message(message: &Value) -> Option<ModelError> {
    match message.get("error") {
        Some(error) if !error.is_null() => Some(of_error(error)),
        _ => (message.get("object").and_then(Value::as_str) == Some("error")).then(|| of_error(message)),
    }
}

/// An error object. Its code may be a status.
pub(super) fn of_error(error: &Value) -> ModelError {
    let code = error.get("code").or_else(|| error.get("status"));
    let status = code.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
    let status = status.and_then(|status| u16::try_from(status).ok()).filter(|status| (400..600).contains(status));
    classify(status, error)
}

fn classify(status: Option<u16>, error: &Value) -> ModelError {
    // The message may repeat what a user wrote. It may fail this call, and never the provider's account.
    let code = lower_case(error, &["code", "type"]);
    let words = format!("{code}\n{}", lower_case(error, &["message"]));
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    let is = |codes: &[&str]| codes.iter().any(|phrase| code.contains(phrase));
    match status {
        Some(429) if is(&UNPAID) => ModelError::Credential,
        Some(429) if says(&UNPAID) => ModelError::Permanent,
        Some(429) => ModelError::Transient, // "too large" is of the rate here
        Some(401 | 402) => ModelError::Credential,
        // Of what was asked as often as of who asks: a model, a region, or what a filter saw.
        Some(403) => ModelError::Permanent,
        _ if says(&OVERFLOWS) => ModelError::ContextOverflow,
        Some(408 | 409 | 425 | 500..=599) => ModelError::Transient,
        Some(_) => ModelError::Permanent,
        None if is(&UNPAID) || is(&UNKNOWN) => ModelError::Credential,
        None if says(&UNPAID) || says(&UNKNOWN) || says(&UNACCEPTABLE) => ModelError::Permanent,
        None => ModelError::Transient,
    }
}

/// What these fields of an error say, or all of one that is a text.
fn lower_case(error: &Value, fields: &[&str]) -> String {
    let said = fields.iter().filter_map(|field| error.get(field)?.as_str());
    error.as_str().into_iter().chain(said).collect::<Vec<_>>().join("\n").to_lowercase()
}

/// In milliseconds, in seconds, or as a date, which counts from the server's own time.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    let seconds = match text("retry-after-ms").and_then(number) {
        Some(milliseconds) => milliseconds / 1_000.0,
        None => {
            let said = text(RETRY_AFTER.as_str())?;
            number(said).or_else(|| {
                let now = httpdate::parse_http_date(text(DATE.as_str())?).ok()?;
                let then = httpdate::parse_http_date(said).ok()?;
                Some(then.duration_since(now).unwrap_or_default().as_secs_f64())
            })?
        }
    };
    Some(Duration::from_secs_f64(seconds.min(RETRY_AFTER_MAX.as_secs_f64())))
}

#[cfg(test)]
mod tests;
