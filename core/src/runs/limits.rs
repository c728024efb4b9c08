//! What a run may use at most.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Problem;
use crate::schema;

/// An agent's limits; a request's wish above its agent's is clamped to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    #[schema(required, minimum = 1)]
    pub max_steps: i32,
    #[schema(required, minimum = 1)]
    pub max_model_calls: i32,
    #[schema(required, minimum = 0)]
    pub max_tool_calls: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    pub max_input_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    pub max_output_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::usd)]
    pub max_cost_usd: Option<Decimal>,
    #[schema(required, minimum = 1)]
    pub deadline_seconds: i32,
}

/// Two days: a run may wait over a weekend night for a person, and no longer unless its agent says so.
const DEADLINE_SECONDS: i32 = 172_800;

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_steps: 32,
            max_model_calls: 64,
            max_tool_calls: 128,
            max_input_tokens: None,
            max_output_tokens: None,
            max_cost_usd: None,
            deadline_seconds: DEADLINE_SECONDS,
        }
    }
}

/// What a request wants instead of its agent's limits. Absent: the agent's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitWishes {
    #[schema(minimum = 1, maximum = 2_147_483_647)]
    pub max_steps: Option<i32>,
    #[schema(minimum = 1, maximum = 2_147_483_647)]
    pub max_model_calls: Option<i32>,
    #[schema(minimum = 0, maximum = 2_147_483_647)]
    pub max_tool_calls: Option<i32>,
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_i64)]
    pub max_input_tokens: Option<i64>,
    #[schema(minimum = 1, maximum = 9_223_372_036_854_775_807_i64)]
    pub max_output_tokens: Option<i64>,
    /// More than zero.
    #[schema(schema_with = schema::wished_usd)]
    pub max_cost_usd: Option<Decimal>,
    #[schema(minimum = 1, maximum = 2_147_483_647)]
    pub deadline_seconds: Option<i32>,
}

impl Limits {
    pub(crate) fn problems(&self) -> Vec<Problem> {
        LimitWishes {
            max_steps: Some(self.max_steps),
            max_model_calls: Some(self.max_model_calls),
            max_tool_calls: Some(self.max_tool_calls),
            max_input_tokens: self.max_input_tokens,
            max_output_tokens: self.max_output_tokens,
            max_cost_usd: self.max_cost_usd,
            deadline_seconds: Some(self.deadline_seconds),
        }
        .problems()
    }
}

impl LimitWishes {
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let above_zero = [
            ("max_steps", self.max_steps.map(i64::from)),
            ("max_model_calls", self.max_model_calls.map(i64::from)),
            ("max_input_tokens", self.max_input_tokens),
            ("max_output_tokens", self.max_output_tokens),
            ("deadline_seconds", self.deadline_seconds.map(i64::from)),
        ];
        let mut problems: Vec<Problem> = above_zero
            .into_iter()
            .filter(|(_, value)| value.is_some_and(|value| value < 1))
            .map(|(name, _)| Problem { path: format!("/limits/{name}"), message: "above zero".into() })
            .collect();
        if self.max_tool_calls.is_some_and(|value| value < 0) {
            problems.push(Problem { path: "/limits/max_tool_calls".into(), message: "zero or above".into() });
        }
        if self.max_cost_usd.is_some_and(|value| {
            value <= Decimal::ZERO || value >= COST_USD_MAX || value.normalize().scale() > COST_USD_SCALE_MAX
        }) {
            problems.push(Problem { path: "/limits/max_cost_usd".into(), message: "above zero, at most ten decimals".into() });
        }
        problems
    }
}

/// What `numeric(20,10)` holds before and after the point.
const COST_USD_MAX: Decimal = Decimal::from_parts(1_410_065_408, 2, 0, false, 0); // 10^10
pub(crate) const COST_USD_SCALE_MAX: u32 = 10;
pub(crate) const COST_USD_MOST: Decimal = Decimal::from_parts(0x630F_FFFF, 0x6BC7_5E2D, 5, false, COST_USD_SCALE_MAX); // one step below
