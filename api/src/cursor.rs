//! Where a stream goes on: the last event that its client has.

use axum::http::HeaderMap;
use baton_core::Error;
use baton_core::error::Problem;

use crate::extract::{Query, all_well};
use crate::headers;

const HEADER: &str = "Last-Event-ID";
/// For the first connection of a client that cannot set a header, as a browser's `EventSource` cannot.
const PARAMETER: &str = "last_event_id";

/// More digits than any sequence has; what has more is not one.
const DIGITS_MAX: usize = 20;

/// The cursor that a request names. None: from the start.
///
/// # Errors
/// `Malformed`, with everything that is wrong with the header and the query.
pub(crate) fn requested(headers: &HeaderMap, query: &Query) -> Result<Option<i64>, Error> {
    let mut problems = query.unknown(&[PARAMETER]);
    let cursor = cursor(headers, query).unwrap_or_else(|problem| {
        problems.push(problem);
        None
    });
    all_well(problems)?;
    Ok(cursor)
}

/// The header wins, unread the parameter: a browser that reconnects
/// repeats the address it began with.
fn cursor(headers: &HeaderMap, query: &Query) -> Result<Option<i64>, Problem> {
    match headers::once(headers, HEADER)? {
        Some(text) => parse(HEADER, text),
        None => query.once(PARAMETER)?.map_or(Ok(None), |text| parse(PARAMETER, text)),
    }
}

fn parse(path: &str, text: &str) -> Result<Option<i64>, Problem> {
    let text = text.trim_matches([' ', '\t']);
    if text.is_empty() || text == "-1" {
        return Ok(None);
    }
    if text.len() > DIGITS_MAX || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem { path: path.into(), message: format!("1 to {DIGITS_MAX} digits") });
    }
    // Beyond what a sequence can be is beyond the end of the log, whatever its size.
    Ok(Some(text.parse().unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests;
