//! What a call costs. Money is decimal, and never rounded in the favour of whoever spends it.

use rust_decimal::{Decimal, RoundingStrategy};

use crate::config;
use crate::events::TokenUsage;
use crate::runs::{COST_USD_MOST, COST_USD_SCALE_MAX};

/// Prices are for so many tokens.
const TOKENS_PRICED: Decimal = Decimal::from_parts(1_000_000, 0, 0, false, 0);

/// US dollars for a million tokens, by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prices {
    pub input: Decimal,
    pub cached_input: Decimal,
    pub cache_write_input: Decimal,
    pub output: Decimal,
}

impl From<config::Prices> for Prices {
    fn from(prices: config::Prices) -> Self {
        Self {
            input: prices.input,
            cached_input: prices.cached_input.unwrap_or(prices.input),
            cache_write_input: prices.cache_write_input.unwrap_or(prices.input),
            output: prices.output,
        }
    }
}

impl Prices {
    /// The cost of one call, rounded up to what is stored.
    pub fn cost(&self, tokens: &TokenUsage) -> Decimal {
        let cached = tokens.cached_input_tokens.max(0);
        let written = tokens.cache_write_input_tokens.max(0);
        let plain = tokens.input_tokens.saturating_sub(cached).saturating_sub(written).max(0);
        let parts = [
            (plain, self.input),
            (cached, self.cached_input),
            (written, self.cache_write_input),
            (tokens.output_tokens.max(0), self.output),
        ];
        stored(parts.into_iter().fold(Decimal::ZERO, |sum, (tokens, price)| sum.saturating_add(of(tokens, price))))
    }

    /// The most that a call can cost which sends and receives so much, whatever is cached.
    pub fn most(&self, input_tokens: i64, output_tokens: i64) -> Decimal {
        stored(of(input_tokens, self.dearest_input()).saturating_add(of(output_tokens, self.output)))
    }

    /// Tokens of output that an amount pays for beside so much input. None: as many as one likes.
    pub fn output_tokens_for(&self, amount: Decimal, input_tokens: i64) -> Option<i64> {
        let rest = amount - stored(of(input_tokens, self.dearest_input()));
        if rest < Decimal::ZERO {
            return Some(0);
        }
        let tokens = rest.checked_mul(TOKENS_PRICED)?.checked_div(self.output)?; // at no price, none
        i64::try_from(tokens.floor()).ok()
    }

    fn dearest_input(&self) -> Decimal {
        self.input.max(self.cached_input).max(self.cache_write_input)
    }
}

fn of(tokens: i64, price: Decimal) -> Decimal {
    Decimal::from(tokens).saturating_mul(price) / TOKENS_PRICED
}

/// As a column holds it.
fn stored(cost: Decimal) -> Decimal {
    cost.round_dp_with_strategy(COST_USD_SCALE_MAX, RoundingStrategy::AwayFromZero).min(COST_USD_MOST).normalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(input: &str, cached: &str, written: &str, output: &str) -> Prices {
        let [input, cached_input, cache_write_input, output] = [input, cached, written, output].map(|text| text.parse().unwrap());
        Prices { input, cached_input, cache_write_input, output }
    }

    fn tokens(input: i64, cached: i64, written: i64, output: i64) -> TokenUsage {
        TokenUsage {
            input_tokens: input,
            cached_input_tokens: cached,
            cache_write_input_tokens: written,
            output_tokens: output,
            reasoning_tokens: output,
        }
    }

    #[test]
    fn each_class_has_its_price_and_reasoning_is_output() {
        let prices = prices("3", "0.3", "3.75", "15");
        for (used, cost) in [
            (tokens(1_000_000, 0, 0, 0), "3"),
            (tokens(1_000_000, 1_000_000, 0, 0), "0.3"),
            (tokens(1_000_000, 0, 1_000_000, 0), "3.75"),
            (tokens(1_000_000, 400_000, 100_000, 0), "1.995"),
            (tokens(0, 0, 0, 1_000_000), "15"),
            (tokens(1, 0, 0, 0), "0.000003"),
            (tokens(-5, -5, -5, -5), "0"),
            // What is cached is part of the input; a provider that says otherwise is believed in what it counted.
            (tokens(0, 1_000_000, 0, 0), "0.3"),
            (tokens(i64::MAX, 0, 0, i64::MAX), "9999999999.9999999999"),
        ] {
            assert_eq!(prices.cost(&used).to_string(), cost, "{used:?}");
        }
    }

    #[test]
    fn a_cost_is_rounded_up_to_what_is_stored() {
        let prices = prices("0.00015", "0", "0", "0");
        assert_eq!(prices.cost(&tokens(1, 0, 0, 0)).to_string(), "0.0000000002");
    }

    #[test]
    fn an_amount_pays_for_output_beside_the_dearest_input() {
        let priced = prices("3", "0.3", "3.75", "15");
        assert_eq!(priced.most(1_000_000, 1_000_000).to_string(), "18.75");
        assert_eq!(priced.output_tokens_for("18.75".parse().unwrap(), 1_000_000), Some(1_000_000));
        assert_eq!(priced.output_tokens_for("18.749999".parse().unwrap(), 1_000_000), Some(999_999));
        assert_eq!(priced.output_tokens_for("3.75".parse().unwrap(), 1_000_000), Some(0));
        assert_eq!(priced.output_tokens_for("3".parse().unwrap(), 1_000_000), Some(0));
        assert_eq!(prices("1", "1", "1", "0").output_tokens_for("1".parse().unwrap(), 1_000_000), None);
    }
}
