//! What the query of a list asks for: filters, and which page.

use std::str::FromStr;

use baton_core::error::Problem;
use baton_core::page::{Keyset, PageRequest};
use baton_core::{Error, UnknownWord};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};
use uuid::Uuid;

use crate::extract::{Query, all_well, hyphenated, number};

const CURSOR: &str = "cursor";
const LIMIT: &str = "limit";

/// Reads parameters and gathers what is wrong with them, so that a client hears of all of it at once.
#[derive(Debug)]
pub(crate) struct ListQuery<'a> {
    query: &'a Query,
    problems: Vec<Problem>,
}

impl<'a> ListQuery<'a> {
    /// A list with these filters; every list has pages.
    pub(crate) fn new(query: &'a Query, filters: &[&str]) -> Self {
        Self { query, problems: query.unknown(&[filters, &[CURSOR, LIMIT]].concat()) }
    }

    pub(crate) fn id(&mut self, name: &str) -> Option<Uuid> {
        let text = self.once(name)?;
        let id = hyphenated(text);
        if id.is_none() {
            self.wrong(name, "a UUID".into());
        }
        id
    }

    /// Words of a closed set; the parameter may be repeated.
    pub(crate) fn words<T: FromStr<Err = UnknownWord>>(&mut self, name: &str) -> Vec<T> {
        let (words, unknown): (Vec<_>, Vec<_>) = self.query.all(name).map(str::parse::<T>).partition(Result::is_ok);
        for error in unknown.into_iter().filter_map(Result::err) {
            self.wrong(name, error.to_string());
        }
        words.into_iter().flatten().collect()
    }

    /// A moment, as RFC 3339 writes it.
    pub(crate) fn time(&mut self, name: &str) -> Option<OffsetDateTime> {
        let text = self.once(name)?;
        // In UTC as the database has it, too: a time zone can push the last hours of the year 9999 out of it.
        let time = OffsetDateTime::parse(text, &Rfc3339).ok().and_then(|time| time.checked_to_offset(UtcOffset::UTC));
        if time.is_none() {
            self.wrong(name, "a time as in RFC 3339, in UTC up to the year 9999".into());
        }
        time
    }

    /// The page, where nothing at all is wrong.
    ///
    /// # Errors
    /// `Malformed`, with everything that is.
    pub(crate) fn page<C: Keyset>(mut self) -> Result<PageRequest<C>, Error> {
        let (cursor, limit) = (self.once(CURSOR), self.limit());
        match PageRequest::new(cursor, limit) {
            Ok(page) => all_well(self.problems).map(|()| page),
            Err(Error::Malformed(more)) => {
                self.problems.extend(more);
                Err(Error::Malformed(self.problems))
            }
            Err(other) => Err(other),
        }
    }

    fn limit(&mut self) -> Option<i64> {
        let text = self.once(LIMIT)?;
        let limit = number(text);
        if limit.is_none() {
            self.wrong(LIMIT, "a positive number".into());
        }
        limit
    }

    fn once(&mut self, name: &str) -> Option<&'a str> {
        self.query.once(name).unwrap_or_else(|problem| {
            self.problems.push(problem);
            None
        })
    }

    fn wrong(&mut self, path: &str, message: String) {
        self.problems.push(Problem { path: path.into(), message });
    }
}

#[cfg(test)]
mod tests;
