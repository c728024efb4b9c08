//! The bodies that we take: how large, of which type, and whether at all.

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use baton_core::Error;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;

use crate::access::Takes;

/// Five times the longest message, whose content is counted as we would write it: room for escapes and white space.
pub(crate) const BYTES_MAX: usize = 1024 * 1024;

/// Judges a body by what is announced of it. None is held for it: nobody makes us do that before we know who they are.
pub(crate) async fn admit(request: Request, takes: Takes) -> Result<Request, Error> {
    if announced_bytes(request.headers()).is_some_and(|bytes| bytes > BYTES_MAX as u64) {
        return Err(Error::PayloadTooLarge { limit_bytes: BYTES_MAX });
    }
    match takes {
        Takes::Json if !request.body().is_end_stream() && !is_json(request.headers()) => Err(Error::UnsupportedMediaType),
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
        let chunk = chunk.map_err(|_| Error::malformed("", "the body broke off"))?;
        if bytes.len() + chunk.len() > bytes_max {
            return Err(Error::PayloadTooLarge { limit_bytes: bytes_max });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

fn announced_bytes(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// `application/json`, with whatever parameters: JSON is UTF-8, and a body that is not fails as JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else { return false };
    let essence = only.to_str().ok().and_then(|text| text.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}
