use baton_core::models::{Policies, Prices};
use time::OffsetDateTime;

use baton_core::runs::FailureReason;

use super::*;

fn limits() -> LimitsView {
    LimitsView {
        max_steps: 32,
        max_model_calls: 64,
        max_tool_calls: 128,
        max_input_tokens: None,
        max_output_tokens: None,
        max_cost_usd: None,
        deadline_at: OffsetDateTime::UNIX_EPOCH,
    }
}

fn used(input_tokens: i64, output_tokens: i64, cost: &str) -> Usage {
    Usage { input_tokens, output_tokens, cost_usd: Some(cost.parse().unwrap()), model_calls: 1, ..Usage::default() }
}

/// Priced at a dollar for a million tokens of input, and two of output.
fn policy() -> Policy {
    let [one, two] = [Decimal::ONE, Decimal::TWO];
    let prices = Prices { input: one, cached_input: one, cache_write_input: one, output: two };
    Policy { prices: Some(prices), ..Policies::default().get("scripted").unwrap().clone() }
}

/// The limit of the answer and what it is held at; None: budget exceeded.
fn held(limits: &LimitsView, usage: &Usage, policy: &Policy, input_tokens: i64) -> Option<(i64, String)> {
    match hold(limits, usage, policy, input_tokens) {
        Ok(hold) => Some((hold.output_tokens, hold.cost_usd.unwrap().to_string())),
        Err(Outcome::Failed { reason: FailureReason::BudgetExceeded, .. }) => None,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn without_limits_the_policy_decides() {
    assert_eq!(held(&limits(), &used(5, 5, "5"), &policy(), 1_000), Some((4_096, "0.009192".into())));
}

#[test]
fn gate_c3_calls_end_at_their_number() {
    let limited = |max_model_calls| LimitsView { max_model_calls, ..limits() };
    assert!(held(&limited(2), &used(0, 0, "0"), &policy(), 1).is_some());
    assert!(held(&limited(1), &used(0, 0, "0"), &policy(), 1).is_none());
}

#[test]
fn gate_c3_input_ends_at_its_limit() {
    let limited = LimitsView { max_input_tokens: Some(1_000), ..limits() };
    assert!(held(&limited, &used(400, 0, "0"), &policy(), 600).is_some());
    assert!(held(&limited, &used(400, 0, "0"), &policy(), 601).is_none());
    assert!(held(&limited, &used(i64::MAX, 0, "0"), &policy(), i64::MAX).is_none());
}

#[test]
fn gate_c3_the_answer_is_lowered_to_what_is_left_and_ends_below_256() {
    let limited = LimitsView { max_output_tokens: Some(1_000), ..limits() };
    for (spent, expected) in [(0, Some(1_000)), (700, Some(300)), (744, Some(256)), (745, None), (1_000, None), (5_000, None)] {
        assert_eq!(held(&limited, &used(0, spent, "0"), &policy(), 1).map(|held| held.0), expected, "{spent}");
    }
}

#[test]
fn gate_c3_the_answer_is_lowered_to_what_is_paid_for() {
    let limited = |dollars: &str| LimitsView { max_cost_usd: Some(dollars.parse().unwrap()), ..limits() };
    // 1,000 tokens of input are 0.001; 256 of output 0.000512.
    for (most, spent, expected) in [
        ("1", "0", Some((4_096, "0.009192"))),
        ("0.002", "0", Some((500, "0.002"))),
        ("0.102", "0.1", Some((500, "0.002"))),
        ("0.001512", "0", Some((256, "0.001512"))),
        ("0.001511", "0", None),
        ("0.0005", "0", None),
        ("0.1", "0.2", None),
    ] {
        let expected = expected.map(|(tokens, cost)| (tokens, cost.to_owned()));
        assert_eq!(held(&limited(most), &used(0, 0, spent), &policy(), 1_000), expected, "{spent} of {most}");
    }
}

#[test]
fn gate_c3_a_limit_of_cost_needs_a_price() {
    let limited = LimitsView { max_cost_usd: Some(Decimal::ONE), ..limits() };
    let unpriced = Policy { prices: None, ..policy() };
    assert!(held(&limited, &used(0, 0, "0"), &unpriced, 1).is_none());
}

#[test]
fn an_answer_fits_its_window_beside_the_request() {
    let small = Policy { context_window: Some(5_000), ..policy() };
    for (sent, room) in [(100, 4_096), (1_000, 4_000), (4_900, 256), (9_000, 256)] {
        assert_eq!(held(&limits(), &used(0, 0, "0"), &small, sent).map(|held| held.0), Some(room), "{sent}");
    }
}

#[test]
fn gate_c3_what_a_provider_counts_beyond_a_limit_ends_the_run() {
    let limited =
        LimitsView { max_input_tokens: Some(10), max_output_tokens: Some(20), max_cost_usd: Some(Decimal::ONE), ..limits() };
    assert!(check_spent(&limited, &used(10, 20, "1")).is_ok(), "at its limits");
    for over in [used(11, 20, "1"), used(10, 21, "1"), used(10, 20, "1.0000000001")] {
        assert!(check_spent(&limited, &over).is_err(), "{over:?}");
    }
    assert!(check_spent(&limits(), &used(i64::MAX, i64::MAX, "9999999999")).is_ok(), "no limits");
}
