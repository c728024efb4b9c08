//! Parts of a body, and bodies that a client has already (RFC 9110).

use axum::http::{HeaderMap, header};
use baton_core::Error;
use baton_core::artifacts::ArtifactBytes;
use bytes::Bytes;
use futures::{Stream, StreamExt};

use crate::headers;

/// Whole bytes, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Range {
    pub(crate) fn length(self) -> u64 {
        self.last - self.first + 1
    }
}

/// Whether the client has this very body.
pub(crate) fn none_match(headers: &HeaderMap, etag: &str) -> bool {
    let listed = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = listed.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

/// The one satisfiable range that is asked for. Any other wish is ignored: the whole is always an answer.
pub(crate) fn requested(headers: &HeaderMap, etag: &str, size: u64) -> Option<Range> {
    if headers::once(headers, "If-Range").ok()?.is_some_and(|tag| tag != etag) {
        return None;
    }
    let text = headers::once(headers, "Range").ok()??.strip_prefix("bytes=")?;
    let (first, last) = text.split_once('-')?;
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let range = match (first, last) {
        ("", suffix) => {
            let length = number(suffix)?;
            Range { first: size.saturating_sub(length), last: size.checked_sub(1)? }
        }
        (first, "") => Range { first: number(first)?, last: size.checked_sub(1)? },
        (first, last) => Range { first: number(first)?, last: number(last)?.min(size.checked_sub(1)?) },
    };
    (range.first <= range.last && range.first < size).then_some(range)
}

/// The part of the bytes that the range names. They are read from the beginning: only the whole can be checked against its hash.
pub(crate) fn cut(bytes: ArtifactBytes, range: Option<Range>) -> impl Stream<Item = Result<Bytes, Error>> {
    let Range { first, last } = range.unwrap_or(Range { first: 0, last: u64::MAX });
    bytes
        .scan(0_u64, move |at, chunk| {
            let chunk = chunk.map(|chunk| {
                let begin = *at;
                *at += chunk.len() as u64;
                let within = |place: u64| usize::try_from(place.clamp(begin, *at) - begin).unwrap_or(chunk.len());
                chunk.slice(within(first)..within(last.saturating_add(1)))
            });
            std::future::ready(Some(chunk))
        })
        .filter(|chunk| std::future::ready(chunk.as_ref().map_or(true, |chunk| !chunk.is_empty())))
}

#[cfg(test)]
mod tests;
