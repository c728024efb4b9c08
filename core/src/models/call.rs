//! The rows of calls of models: what a call holds when it is begun, and what it came to. They are written with the events that
//! say the same, in the statement that writes those.

use std::collections::BTreeMap;
use std::sync::Arc;

use rust_decimal::Decimal;
use sqlx::PgPool;
use uuid::Uuid;

use crate::error::Error;
use crate::events::{CostSource, TokenUsage};
use crate::models::prices::Prices;

/// Bytes of what a provider needs back; the schema's CHECK says the same.
pub const CONTINUATION_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a write of a run changes in them: at most one call is begun, and one ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelRows {
    pub started: Option<Box<StartedCall>>,
    pub settled: Option<Box<SettledCall>>,
    /// What the provider of the step's turn needs back with the next request. Not with the end of a run: nothing follows it.
    pub continuation: Option<(u32, Arc<[u8]>)>,
}

/// A call on record before it is made, at what is held for it.
#[derive(Debug, Clone, PartialEq)]
pub struct StartedCall {
    pub step: u32,
    pub attempt: u32,
    pub provider: String,
    pub model: String,
    pub prices: Option<Prices>,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_usd: Option<Decimal>,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq)]
pub struct SettledCall {
    pub step: u32,
    pub attempt: u32,
    pub usage: TokenUsage,
    pub cost_usd: Option<Decimal>,
    pub cost_source: CostSource,
    pub provider_request_id: Option<String>,
}

/// What a run's provider needs back, by the step of the turn that it came with.
///
/// # Errors
/// The database's.
pub async fn continuations(pool: &PgPool, run_id: Uuid) -> Result<BTreeMap<u32, Arc<[u8]>>, Error> {
    let rows =
        sqlx::query!("SELECT c.step, c.bytes FROM provider_continuations c WHERE c.run_id = $1", run_id).fetch_all(pool).await?;
    rows.into_iter().map(|row| Ok((u32::try_from(row.step).map_err(Error::internal)?, Arc::from(row.bytes)))).collect()
}
