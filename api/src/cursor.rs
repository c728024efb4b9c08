//! Where a stream goes on: the last event that its client has.

use axum::http::HeaderMap;
use baton_core::Error;
use baton_core::error::Problem;

use crate::extract::{Query, all_well, number};
use crate::headers;

const HEADER: &str = "Last-Event-ID";
/// For the first connection of a client that cannot set a header, as a browser's `EventSource` cannot.
const PARAMETER: &str = "last_event_id";

const AFTER: &str = "after";
const LIMIT: &str = "limit";

/// Events of a page of the log.
const EVENTS_MAX: i64 = 1_000;

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

/// The page of a log that a query names: after which sequence, and how many events at most.
///
/// # Errors
/// `Malformed`, with everything that is wrong.
pub(crate) fn page(query: &Query) -> Result<(Option<i64>, i64), Error> {
    let mut problems = query.unknown(&[AFTER, LIMIT]);
    let after = query.once(AFTER).and_then(|text| text.map_or(Ok(None), |text| parse(AFTER, text)));
    let limit = query.once(LIMIT).and_then(|text| text.map_or(Ok(EVENTS_MAX), limit));
    let mut taken = |problem| problems.push(problem);
    let page = (after.map_err(&mut taken).ok().flatten(), limit.map_err(&mut taken).unwrap_or(EVENTS_MAX));
    all_well(problems)?;
    Ok(page)
}

fn limit(text: &str) -> Result<i64, Problem> {
    let limit = number(text).filter(|limit| *limit > 0).map(|limit| limit.min(EVENTS_MAX));
    limit.ok_or_else(|| Problem { path: LIMIT.into(), message: "a positive number".into() })
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
