//! Keyset pages behind opaque cursors: lists are `created_at DESC, id DESC`, at full precision; what is in a log goes by
//! sequence.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::Error;

/// Rows in a page when the caller does not say.
pub const LIMIT_DEFAULT: i64 = 50;
/// Rows in a page at most; a larger wish is clamped.
pub const LIMIT_MAX: i64 = 200;

/// `next_cursor` is null exactly on the last page.
#[derive(Debug, Clone, Serialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next_cursor: Option<String>,
}

/// The last row of the page before; opaque on the wire.
pub trait Keyset: Copy {
    fn encode(self) -> String;

    /// # Errors
    /// `Malformed` for what is not a cursor of this kind.
    fn decode(text: &str) -> Result<Self, Error>;
}

/// What a caller wants of a list.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<C = Cursor> {
    pub cursor: Option<C>,
    limit: Option<i64>,
}

impl<C> Default for PageRequest<C> {
    fn default() -> Self {
        Self { cursor: None, limit: None }
    }
}

impl<C: Keyset> PageRequest<C> {
    /// # Errors
    /// `Malformed` for a limit below 1 or a cursor that does not decode.
    pub fn new(cursor: Option<&str>, limit: Option<i64>) -> Result<Self, Error> {
        if limit.is_some_and(|limit| limit < 1) {
            return Err(Error::malformed("limit", "a positive number"));
        }
        Ok(Self { cursor: cursor.map(C::decode).transpose()?, limit })
    }

    pub fn limit(&self) -> i64 {
        self.limit.unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX)
    }
}

/// A place in a list of rows, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    pub created_at: OffsetDateTime,
    pub id: Uuid,
}

impl Keyset for Cursor {
    fn encode(self) -> String {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.created_at.unix_timestamp_nanos().to_be_bytes());
        bytes[16..].copy_from_slice(self.id.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn decode(text: &str) -> Result<Self, Error> {
        let bytes: [u8; 32] = bytes_of(text)?;
        let (nanos, id) = bytes.split_at(16);
        let nanos = i128::from_be_bytes(nanos.try_into().map_err(|_| not_a_cursor())?);
        Ok(Self {
            created_at: OffsetDateTime::from_unix_timestamp_nanos(nanos).map_err(|_| not_a_cursor())?,
            id: Uuid::from_slice(id).map_err(|_| not_a_cursor())?,
        })
    }
}

/// A place in a session's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceCursor(pub i64);

impl Keyset for SequenceCursor {
    fn encode(self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.to_be_bytes())
    }

    fn decode(text: &str) -> Result<Self, Error> {
        Ok(Self(i64::from_be_bytes(bytes_of(text)?)))
    }
}

fn bytes_of<const N: usize>(text: &str) -> Result<[u8; N], Error> {
    URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(not_a_cursor)
}

fn not_a_cursor() -> Error {
    Error::malformed("cursor", "not a cursor of this list")
}

/// Makes a page of rows that were read with `limit + 1`: the extra row says that there is another page.
pub(crate) fn page<T, C: Keyset>(mut rows: Vec<T>, limit: i64, cursor: impl Fn(&T) -> C) -> Page<T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = if more { rows.last().map(|row| cursor(row).encode()) } else { None };
    Page { items: rows, next_cursor }
}

#[cfg(test)]
mod tests;
