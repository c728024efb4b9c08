//! Artifacts: what they are, and their bytes. The bytes are somebody else's work: whatever they are, they are an attachment.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use baton_core::artifacts::ArtifactView;
use baton_core::{Error, Services};

use crate::error::ApiError;
use crate::extract::{ArtifactId, Caller, Query};
use crate::range::{self, Range};

pub(super) async fn get(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    ArtifactId(id): ArtifactId,
    query: Query,
) -> Result<impl IntoResponse, ApiError> {
    let artifact = services.artifacts.get(&principal, id).await?;
    query.refuse()?; // after it: what is not there is 404, however it is asked for
    Ok(Json(artifact))
}

pub(super) async fn content(
    State(services): State<Arc<Services>>,
    Caller(principal): Caller,
    ArtifactId(id): ArtifactId,
    query: Query,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let artifact = services.artifacts.get(&principal, id).await?;
    query.refuse()?;
    let etag = format!("\"{}\"", artifact.sha256);
    if range::none_match(&headers, &etag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    let size = u64::try_from(artifact.size_bytes).map_err(Error::internal)?;
    // RFC 9110 knows ranges of a GET only.
    let range = (method == Method::GET).then(|| range::requested(&headers, &etag, size)).flatten();
    let bytes = services.artifacts.open(&principal, id).await?;
    let (status, length) = range.map_or((StatusCode::OK, size), |range| (StatusCode::PARTIAL_CONTENT, range.length()));
    let mut response = (status, Body::from_stream(range::cut(bytes, range))).into_response();
    let head = response.headers_mut();
    head.extend(fixed(&artifact, &etag)?);
    head.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if let Some(Range { first, last }) = range {
        let part = HeaderValue::from_str(&format!("bytes {first}-{last}/{size}")).map_err(Error::internal)?;
        head.insert(header::CONTENT_RANGE, part);
    }
    Ok(response)
}

/// The headers of all content: nothing of it is ever shown in the place of a page of ours.
fn fixed(artifact: &ArtifactView, etag: &str) -> Result<[(HeaderName, HeaderValue); 6], Error> {
    let value = |text: &str| HeaderValue::from_str(text).map_err(Error::internal);
    Ok([
        (header::CONTENT_TYPE, value(&artifact.media_type)?),
        (header::CONTENT_DISPOSITION, value(&disposition(&artifact.name))?),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox")),
        (header::ETAG, value(etag)?),
        (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
    ])
}

/// RFC 6266: the name in ASCII for old clients, and as it is for the others.
fn disposition(name: &str) -> String {
    let plain: String = name.chars().map(|char| if char.is_ascii_graphic() || char == ' ' { char } else { '_' }).collect();
    let is_attr_char = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(byte);
    let encoded: String = name
        .bytes()
        .map(|byte| if is_attr_char(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::disposition;

    #[test]
    fn a_name_is_given_twice_and_forges_nothing() {
        assert_eq!(disposition("note.txt"), "attachment; filename=\"note.txt\"; filename*=UTF-8''note.txt");
        assert_eq!(
            disposition("Räk (1);.txt"),
            "attachment; filename=\"R_k (1);.txt\"; filename*=UTF-8''R%C3%A4k%20%281%29%3B.txt"
        );
    }
}
