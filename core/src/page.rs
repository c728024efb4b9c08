//! Keyset pages: `created_at DESC, id DESC`, at full precision, behind an opaque cursor.

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

/// What a caller wants of a list.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageRequest {
    pub cursor: Option<Cursor>,
    limit: Option<i64>,
}

impl PageRequest {
    /// # Errors
    /// `Malformed` for a limit below 1 or a cursor that does not decode.
    pub fn new(cursor: Option<&str>, limit: Option<i64>) -> Result<Self, Error> {
        if limit.is_some_and(|limit| limit < 1) {
            return Err(Error::malformed("limit", "a positive number"));
        }
        Ok(Self { cursor: cursor.map(Cursor::decode).transpose()?, limit })
    }

    pub fn limit(&self) -> i64 {
        self.limit.unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX)
    }
}

/// The last row of the page before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    pub created_at: OffsetDateTime,
    pub id: Uuid,
}

impl Cursor {
    pub fn encode(self) -> String {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.created_at.unix_timestamp_nanos().to_be_bytes());
        bytes[16..].copy_from_slice(self.id.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn decode(text: &str) -> Result<Self, Error> {
        let malformed = || Error::malformed("cursor", "not a cursor of this list");
        let bytes: [u8; 32] = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(malformed)?;
        let (nanos, id) = bytes.split_at(16);
        let nanos = i128::from_be_bytes(nanos.try_into().map_err(|_| malformed())?);
        Ok(Self {
            created_at: OffsetDateTime::from_unix_timestamp_nanos(nanos).map_err(|_| malformed())?,
            id: Uuid::from_slice(id).map_err(|_| malformed())?,
        })
    }
}

/// Makes a page of rows that were read with `limit + 1`: the extra row says that there is another page.
pub(crate) fn page<T>(mut rows: Vec<T>, limit: i64, cursor: impl Fn(&T) -> Cursor) -> Page<T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = if more { rows.last().map(|row| cursor(row).encode()) } else { None };
    Page { items: rows, next_cursor }
}

#[cfg(test)]
mod tests;
