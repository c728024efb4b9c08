//! The bodies that we take: how large, of which type, and whether at all.

use std::iter::successors;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use baton_core::Error;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;

use crate::access::Takes;
use crate::linger::TooSlow;

/// Five times the longest message, whose content is counted as we would write it: room for escapes and white space.
pub(crate) const BYTES_MAX: usize = 1024 * 1024;

/// Judges a body by what is announced of it. None is held for it: nobody makes us do that before we know who they are.
pub(crate) async fn admit(request: Request, takes: Takes) -> Result<Request, Error> {
    if announced_bytes(request.headers()).is_some_and(|bytes| bytes > BYTES_MAX as u64) {
        return Err(Error::PayloadTooLarge { limit_bytes: BYTES_MAX });
    }
    match takes {
        Takes::Json if !request.body().is_end_stream() && !is_plain_json(request.headers()) => Err(Error::UnsupportedMediaType),
        Takes::Json => Ok(request),
        Takes::Nothing => {
            let (parts, body) = request.into_parts();
            match read(body, 0).await {
                Ok(_) => Ok(Request::from_parts(parts, Body::empty())),
                Err(Error::PayloadTooLarge { .. }) => Err(Error::malformed("", "this route takes no body")),
                Err(error) => Err(error),
            }
        }
    }
}

/// Reads a body to its end, counting: its length may not have been announced.
pub(crate) async fn read(body: Body, bytes_max: usize) -> Result<Bytes, Error> {
    let mut bytes = BytesMut::new();
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Error::malformed("", broken_off(&error)))?;
        if bytes.len() + chunk.len() > bytes_max {
            return Err(Error::PayloadTooLarge { limit_bytes: bytes_max });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

/// Why a body ended before its end.
fn broken_off(error: &axum::Error) -> String {
    let mut causes = successors(Some(error as &dyn std::error::Error), |error| error.source());
    let too_slow = causes.find_map(|error| error.downcast_ref::<TooSlow>());
    too_slow.map_or_else(|| "the body broke off".to_owned(), TooSlow::to_string)
}

fn announced_bytes(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// `application/json` and nothing done to it. A `charset` changes nothing, whichever it is: JSON is UTF-8, and a body that is
/// not fails as JSON.
fn is_plain_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else { return false };
    let Some((essence, parameters)) = only.to_str().ok().map(|text| text.split_once(';').unwrap_or((text, ""))) else {
        return false;
    };
    let mut parameters = parameters.split(';').map(str::trim).filter(|parameter| !parameter.is_empty());
    let is_charset = |parameter: &str| parameter.split_once('=').is_some_and(|(name, _)| name.eq_ignore_ascii_case("charset"));
    let is_identity = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
    essence.trim().eq_ignore_ascii_case("application/json")
        && parameters.all(is_charset)
        && headers.get_all(header::CONTENT_ENCODING).iter().all(is_identity)
}

#[cfg(test)]
mod tests;
