//! The request headers that mean something to us.

use axum::http::{HeaderMap, header};
use baton_core::error::Problem;

/// A header that may be given once.
pub(crate) fn once<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Problem> {
    let problem = |message: &str| Problem { path: name.into(), message: message.into() };
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| problem("visible ASCII characters only")),
        (Some(_), Some(_)) => Err(problem("given more than once")),
    }
}

/// Whether a media type is accepted by its own name: wildcards are everybody's, and say nothing.
pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let listed =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    listed.map(|range| range.split(';').map(str::trim)).any(|mut parts| {
        let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(media_type));
        is_named && !parts.any(|parameter| matches!(parameter, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

/// The caller's trace, where it is one: `00-<trace id>-<span id>-<flags>`, of lower-case hexadecimal. Anything else is ignored,
/// as W3C Trace Context asks: a trace is never a reason to refuse work.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = once(headers, "traceparent").ok()??;
    let parts: Vec<&str> = text.splitn(5, '-').collect();
    let ["00", trace_id, span_id, flags] = parts[..] else { return None };
    let is_id = |part: &str, digits| is_hex(part, digits) && part.bytes().any(|byte| byte != b'0');
    (is_id(trace_id, 32) && is_id(span_id, 16) && is_hex(flags, 2)).then(|| text.to_owned())
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests;
