//! Idempotency keys: a client may repeat a creation safely.

use std::time::Duration;

use sha2::{Digest, Sha256};
use sqlx::PgPool;
use uuid::Uuid;

use crate::error::{Conflict, Error};
use crate::principal::Principal;

/// Longest key, in characters; the schema's CHECK says the same.
const KEY_CHARS_MAX: usize = 255;

/// A key and the hash of the request that carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    key: String,
    request_sha256: [u8; 32],
}

impl IdempotencyKey {
    /// `method` and concrete `path` are part of the hash, so that a key used on two routes is a reuse, not a repeat.
    ///
    /// # Errors
    /// `Malformed` where the key is not 1 to 255 visible ASCII characters.
    pub fn new(key: &str, method: &str, path: &str, canonical_body: &str) -> Result<Self, Error> {
        if !(1..=KEY_CHARS_MAX).contains(&key.len()) || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::malformed("Idempotency-Key", "1 to 255 visible ASCII characters"));
        }
        let mut hash = Sha256::new();
        for part in [method, path, canonical_body] {
            hash.update(part.len().to_be_bytes()); // so that no two splits of the same bytes are equal
            hash.update(part);
        }
        Ok(Self { key: key.to_owned(), request_sha256: hash.finalize().into() })
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn request_sha256(&self) -> &[u8] {
        &self.request_sha256
    }
}

/// How long keys are kept; they still replay until maintenance removes them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyTtl(pub(crate) Duration);

/// What a known key had created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    Session(Uuid),
    Run(Uuid),
}

/// Looks a key up. Always in its own statement: the loser of a race does not see the winner in its own snapshot.
///
/// # Errors
/// `Conflict` where the key was used for another request.
pub(crate) async fn look_up(pool: &PgPool, principal: &Principal, key: &IdempotencyKey) -> Result<Option<Created>, Error> {
    let row = sqlx::query!(
        r#"
        SELECT k.request_sha256, k.session_id, k.run_id
        FROM idempotency_keys k
        WHERE k.tenant_id = $1 AND k.principal_id = $2 AND k.key = $3
        "#,
        principal.tenant_id,
        principal.principal_id,
        key.key(),
    )
    .fetch_optional(pool)
    .await?;
    let Some(row) = row else { return Ok(None) };
    if row.request_sha256 != key.request_sha256() {
        return Err(Error::Conflict(Conflict::IdempotencyKeyReused));
    }
    // The schema's CHECK: exactly one of the two.
    Ok(row.run_id.map(Created::Run).or(row.session_id.map(Created::Session)))
}

/// Removes expired keys; a bounded number each time.
pub(crate) async fn remove_expired(pool: &PgPool) -> Result<u64, Error> {
    /// Rows a pass: keeps the transaction short, and a pass a minute keeps up with 600 submissions a second.
    const AT_MOST: i64 = 40_000;
    let removed = sqlx::query!(
        r#"
        DELETE FROM idempotency_keys k
        USING (
            SELECT e.tenant_id, e.principal_id, e.key FROM idempotency_keys e
            WHERE e.expires_at < now() ORDER BY e.expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
        ) expired
        WHERE k.tenant_id = expired.tenant_id AND k.principal_id = expired.principal_id AND k.key = expired.key
        "#,
        AT_MOST,
    )
    .execute(pool)
    .await?;
    Ok(removed.rows_affected())
}
