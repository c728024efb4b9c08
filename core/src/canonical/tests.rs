use super::*;

fn check(input: &str, expected: Result<&str, NotCanonical>) {
    let got = parse(input.as_bytes()).and_then(|value| text(&value));
    assert_eq!(got, expected.map(str::to_owned), "{input}");
}

#[test]
fn keys_are_sorted_by_code_point_and_white_space_goes() {
    check(r#" { "b" : 1 , "a" : [ true , null ] } "#, Ok(r#"{"a":[true,null],"b":1}"#));
    // By code point U+FF5E comes before U+1F600; by UTF-16 unit it would not.
    check("{\"\u{1F600}\":1,\"\u{FF5E}\":2}", Ok("{\"\u{FF5E}\":2,\"\u{1F600}\":1}"));
}

#[test]
fn numbers_have_one_form() {
    check("[1.0, 1e2, 0.1, 1E-7, 1e21]", Ok("[1,100,0.1,1e-7,1e+21]"));
    check("123456789012345678901234567890", Ok("123456789012345678901234567890"));
    check("[9007199254740991, -9007199254740991]", Ok("[9007199254740991,-9007199254740991]"));
    for refused in ["-0", "-0.0", "1e999", "-1e999"] {
        check(refused, Err(NotCanonical::Number));
    }
}

#[test]
fn strings_are_composed_and_equal_keys_refused() {
    check("\"e\u{301}\"", Ok("\"\u{e9}\""));
    check("{\"e\u{301}\":1,\"\u{e9}\":2}", Err(NotCanonical::DuplicateKey));
    check(r#"{"a":1,"a":2}"#, Err(NotCanonical::DuplicateKey));
    check(r#"{"a":1,"\u0061":2}"#, Err(NotCanonical::DuplicateKey));
    check(r#"["\u0000"]"#, Err(NotCanonical::Nul));
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    check(&nested(DEPTH_MAX), Ok(&nested(DEPTH_MAX)));
    check(&nested(DEPTH_MAX + 1), Err(NotCanonical::TooDeep));
    check(&nested(100_000), Err(NotCanonical::TooDeep));
}

#[test]
fn a_user_cannot_forge_a_number() {
    // The key that serde_json uses inside, sent by a client: whatever comes of it must parse and be a number or an error.
    let forged = format!("{{{NUMBER_TOKEN:?}:\"1\"}}");
    assert!(matches!(parse(forged.as_bytes()), Ok(Value::Number(_)) | Err(_)));
}

#[test]
fn syntax_errors_say_where() {
    check("{\"a\":}", Err(NotCanonical::Syntax("line 1, column 6".into())));
    check("1 2", Err(NotCanonical::Syntax("line 1, column 3".into())));
}

#[test]
fn the_hash_is_lower_case_hexadecimal() {
    assert_eq!(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
