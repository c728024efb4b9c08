//! What a run may still spend, and what is held for a call before it is made: pure.

use baton_core::events::Hold;
use baton_core::models::{OUTPUT_TOKENS_MIN, Policy};
use baton_core::runs::{FailureClass, LimitsView, Usage};
use rust_decimal::Decimal;

use crate::run_loop::{Flow, Outcome};

/// Whether what is spent is within the limits: a provider may have counted more than was held.
pub(crate) fn check_spent(limits: &LimitsView, usage: &Usage) -> Flow<()> {
    let is_over = |class| Err(Outcome::failed_for(class));
    if limits.max_input_tokens.is_some_and(|most| usage.input_tokens > most) {
        return is_over(FailureClass::MaxInputTokens);
    }
    if limits.max_output_tokens.is_some_and(|most| usage.output_tokens > most) {
        return is_over(FailureClass::MaxOutputTokens);
    }
    if limits.max_cost_usd.is_some_and(|most| usage.cost_usd.is_some_and(|cost| cost > most)) {
        return is_over(FailureClass::MaxCost);
    }
    Ok(())
}

/// What is held for a call that sends so many tokens. Its output is the limit of the answer: the policy's, lowered to what the
/// budget pays for.
pub(super) fn hold(limits: &LimitsView, usage: &Usage, policy: &Policy, input_tokens: i64) -> Flow<Hold> {
    if usage.model_calls >= limits.max_model_calls {
        return Err(Outcome::failed_for(FailureClass::MaxModelCalls));
    }
    if limits.max_input_tokens.is_some_and(|most| usage.input_tokens.saturating_add(input_tokens) > most) {
        return Err(Outcome::failed_for(FailureClass::MaxInputTokens));
    }
    let by_tokens = limits.max_output_tokens.map(|most| most - usage.output_tokens);
    let by_cost = match (limits.max_cost_usd, &policy.prices) {
        (None, _) => None,
        // The price has gone since the run was submitted: whether the limit is kept could not be known.
        (Some(_), None) => return Err(Outcome::failed_for(FailureClass::Unpriced)),
        (Some(most), Some(prices)) => prices.output_tokens_for(most - usage.cost_usd.unwrap_or(Decimal::ZERO), input_tokens),
    };
    for (most, class) in [(by_tokens, FailureClass::MaxOutputTokens), (by_cost, FailureClass::MaxCost)] {
        if most.is_some_and(|most| most < i64::from(OUTPUT_TOKENS_MIN)) {
            return Err(Outcome::failed_for(class));
        }
    }
    let paid_for = [by_tokens, by_cost].into_iter().flatten().min().unwrap_or(i64::MAX);
    let output_tokens = paid_for.min(i64::from(policy.max_output_tokens)).min(room_in_window(policy, input_tokens));
    let cost_usd = policy.prices.map(|prices| prices.most(input_tokens, output_tokens));
    Ok(Hold { cost_usd, input_tokens, output_tokens })
}

/// An answer that would not fit beside its request makes providers refuse both. What was sent is only estimated, so that they
/// have the last word about whether it fits.
fn room_in_window(policy: &Policy, input_tokens: i64) -> i64 {
    policy.context_window.map_or(i64::MAX, |window| (i64::from(window) - input_tokens).max(i64::from(OUTPUT_TOKENS_MIN)))
}

#[cfg(test)]
mod tests;
