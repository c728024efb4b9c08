use super::*;

fn check(expression: &str, expected: Result<&str, ReasonCode>) {
    let got = evaluate(expression).map(|value| value.normalize().to_string());
    assert_eq!(got.as_deref().map_err(|reason| *reason), expected, "{expression}");
}

#[test]
fn the_four_operations_and_their_words() {
    check("12 times 9", Ok("108"));
    check("12 * 9", Ok("108"));
    check("7 plus 3 minus 4", Ok("6"));
    check("100 divided by 8", Ok("12.5"));
    check("10 % 4", Ok("2"));
    check("0.1 + 0.2", Ok("0.3"));
    check("12 × 9 ÷ 2", Ok("54"));
}

#[test]
fn precedence_signs_and_powers() {
    check("2 + 3 * 4", Ok("14"));
    check("(2 + 3) * 4", Ok("20"));
    check("-2^2", Ok("-4"));
    check("2^3^2", Ok("512"));
    check("2^-2", Ok("0.25"));
    check("--3", Ok("3"));
}

#[test]
fn what_is_wrong_is_an_error_and_never_an_outage() {
    check("9^9^9", Err(RANGE));
    check("9^999", Err(RANGE));
    check("2^0.5", Err(RANGE));
    check("1/0", Err(ZERO));
    check("0^-1", Err(ZERO));
    check("1 +", Err(SYNTAX));
    check("", Err(SYNTAX));
    check("1 2", Err(SYNTAX));
    check("1.2.3", Err(SYNTAX));
    check(".", Err(SYNTAX));
    check(&"9".repeat(40), Err(RANGE));
    check("two", Err(SYNTAX));
    check("9999999999999999999999999999 * 10", Err(RANGE));
    check(&"(".repeat(900), Err(SYNTAX));
    check(&"-".repeat(900), Err(SYNTAX));
}
