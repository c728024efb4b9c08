//! The rows of calls of models as `unnest` takes them: arrays of one length (a shorter one would be padded with nulls).

use rust_decimal::Decimal;
use uuid::Uuid;

use crate::models::{ModelRows, SettledCall, StartedCall};

#[derive(Default)]
pub(super) struct ModelColumns {
    pub(super) started: StartedColumns,
    pub(super) settled: SettledColumns,
    pub(super) continuations: ContinuationColumns,
}

#[derive(Default)]
pub(super) struct StartedColumns {
    pub(super) run_id: Vec<Uuid>,
    pub(super) step: Vec<i32>,
    pub(super) attempt: Vec<i32>,
    pub(super) provider: Vec<String>,
    pub(super) model: Vec<String>,
    pub(super) input_tokens: Vec<i64>,
    pub(super) output_tokens: Vec<i64>,
    pub(super) input_price: Vec<Option<Decimal>>,
    pub(super) cached_input_price: Vec<Option<Decimal>>,
    pub(super) cache_write_input_price: Vec<Option<Decimal>>,
    pub(super) output_price: Vec<Option<Decimal>>,
    pub(super) cost_usd: Vec<Option<Decimal>>,
}

#[derive(Default)]
pub(super) struct SettledColumns {
    pub(super) run_id: Vec<Uuid>,
    pub(super) step: Vec<i32>,
    pub(super) attempt: Vec<i32>,
    pub(super) input_tokens: Vec<i64>,
    pub(super) cached_input_tokens: Vec<i64>,
    pub(super) cache_write_input_tokens: Vec<i64>,
    pub(super) output_tokens: Vec<i64>,
    pub(super) reasoning_tokens: Vec<i64>,
    pub(super) cost_usd: Vec<Option<Decimal>>,
    pub(super) cost_source: Vec<String>,
    pub(super) provider_request_id: Vec<Option<String>>,
}

#[derive(Default)]
pub(super) struct ContinuationColumns {
    pub(super) run_id: Vec<Uuid>,
    pub(super) step: Vec<i32>,
    pub(super) bytes: Vec<Vec<u8>>,
}

impl ModelColumns {
    pub(super) fn push(&mut self, run_id: Uuid, rows: &ModelRows) {
        if let Some(call) = &rows.started {
            self.started.push(run_id, call);
        }
        if let Some(call) = &rows.settled {
            self.settled.push(run_id, call);
        }
        if let Some((step, bytes)) = &rows.continuation {
            self.continuations.run_id.push(run_id);
            self.continuations.step.push(number(*step));
            self.continuations.bytes.push(bytes.to_vec());
        }
    }
}

impl StartedColumns {
    fn push(&mut self, run_id: Uuid, call: &StartedCall) {
        self.run_id.push(run_id);
        self.step.push(number(call.step));
        self.attempt.push(number(call.attempt));
        self.provider.push(call.provider.clone());
        self.model.push(call.model.clone());
        self.input_tokens.push(call.input_tokens);
        self.output_tokens.push(call.output_tokens);
        self.input_price.push(call.prices.map(|prices| prices.input));
        self.cached_input_price.push(call.prices.map(|prices| prices.cached_input));
        self.cache_write_input_price.push(call.prices.map(|prices| prices.cache_write_input));
        self.output_price.push(call.prices.map(|prices| prices.output));
        self.cost_usd.push(call.cost_usd);
    }
}

impl SettledColumns {
    fn push(&mut self, run_id: Uuid, call: &SettledCall) {
        self.run_id.push(run_id);
        self.step.push(number(call.step));
        self.attempt.push(number(call.attempt));
        self.input_tokens.push(call.usage.input_tokens);
        self.cached_input_tokens.push(call.usage.cached_input_tokens);
        self.cache_write_input_tokens.push(call.usage.cache_write_input_tokens);
        self.output_tokens.push(call.usage.output_tokens);
        self.reasoning_tokens.push(call.usage.reasoning_tokens);
        self.cost_usd.push(call.cost_usd);
        self.cost_source.push(call.cost_source.to_string());
        self.provider_request_id.push(call.provider_request_id.clone());
    }
}

fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
