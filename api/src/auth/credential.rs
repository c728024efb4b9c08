//! Where a credential is: in `Authorization`, or in the cookie of a browser, whose `EventSource` cannot send that header. Never
//! in the address, which ends up in logs.

use axum::http::{HeaderMap, header};

use crate::headers;

/// The cookie that `POST /v1/browser-session` sets.
pub(crate) const COOKIE: &str = "baton_session";

/// The token of a request. Two of either kind are none: somebody else may have put one there.
pub(crate) fn presented(headers: &HeaderMap) -> Option<&str> {
    // What is said with the request wins over what the browser adds to it, and is not helped out by it where it is wrong.
    if headers.contains_key(header::AUTHORIZATION) {
        let (scheme, token) = headers::once(headers, "authorization").ok()??.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start_matches(' '));
    }
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut tokens = pairs.filter(|(name, _)| *name == COOKIE).map(|(_, token)| token);
    tokens.next().filter(|_| tokens.next().is_none())
}
