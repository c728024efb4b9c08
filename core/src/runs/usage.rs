//! What a run has used so far.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::events::TokenUsage;
use crate::schema;

/// Totals over the run, failed attempts included; of a call of a model that is under way, the most that it may use. Keys in code point order: SQL writes the same object (`run_usage`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    #[schema(minimum = 0)]
    pub cache_write_input_tokens: i64,
    #[schema(minimum = 0)]
    pub cached_input_tokens: i64,
    /// US dollars; null before the first charge and wherever a charged call was unpriced.
    #[schema(required, schema_with = schema::usd_or_null)]
    pub cost_usd: Option<Decimal>,
    #[schema(minimum = 0)]
    pub input_tokens: i64,
    #[schema(minimum = 0)]
    pub model_calls: i32,
    #[schema(minimum = 0)]
    pub output_tokens: i64,
    #[schema(minimum = 0)]
    pub reasoning_tokens: i64,
    #[schema(minimum = 0)]
    pub tool_calls: i32,
}

impl Usage {
    /// Adds the tokens of one call. Saturating: a provider's nonsense must not stop a run.
    pub fn charge(&mut self, tokens: &TokenUsage) {
        let add = |total: &mut i64, more: i64| *total = total.saturating_add(more.max(0));
        add(&mut self.cache_write_input_tokens, tokens.cache_write_input_tokens);
        add(&mut self.cached_input_tokens, tokens.cached_input_tokens);
        add(&mut self.input_tokens, tokens.input_tokens);
        add(&mut self.output_tokens, tokens.output_tokens);
        add(&mut self.reasoning_tokens, tokens.reasoning_tokens);
    }
}
