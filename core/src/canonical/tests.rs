use proptest::prelude::*;
use proptest::sample::select;

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
fn case_j4_numbers_have_one_form() {
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
fn case_j7_nesting_is_bounded() {
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

/// Values in canonical form: strings composed, no two keys the same.
fn values() -> impl Strategy<Value = Value> {
    // Letters that decompose, into one mark or two; a mark that stands alone; what JSON escapes; beyond the first plane.
    let letters = ['a', 'B', '\u{e9}', '\u{1e69}', '\u{d55c}', '\u{212b}', '\u{301}', '\u{1d15e}', '"', '\\', '\n', '\u{1F600}'];
    let strings = prop::collection::vec(select(letters.to_vec()), 0..6).prop_map(|letters| letters.into_iter().nfc().collect());
    let strings: BoxedStrategy<String> = strings.boxed();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        strings.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(strings.clone(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Composed,
    Decomposed,
}

/// The same value, written with its keys turned by some places, its strings in a form, and white space.
fn spelled(value: &Value, turn: usize, form: Form) -> String {
    let string = |text: &str| {
        let text: String = match form {
            Form::Composed => text.nfc().collect(),
            Form::Decomposed => text.nfd().collect(),
        };
        Value::String(text).to_string()
    };
    match value {
        Value::String(text) => string(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| spelled(item, turn, form)).collect();
            format!("[ {} ]", items.join(" , "))
        }
        Value::Object(members) => {
            let mut members: Vec<String> =
                members.iter().map(|(key, member)| format!("{} : {}", string(key), spelled(member, turn, form))).collect();
            let places = turn.checked_rem(members.len()).unwrap_or_default();
            members.rotate_left(places);
            format!("{{\n{}}}", members.join(",\n"))
        }
        other => other.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn gate_c6_text_and_hash_follow_neither_key_order_nor_composition(value in values(), turn in 0..5_usize) {
        let canonical = text(&value).unwrap();
        for form in [Form::Composed, Form::Decomposed] {
            let again = text(&parse(spelled(&value, turn, form).as_bytes()).unwrap()).unwrap();
            prop_assert_eq!(&again, &canonical);
            prop_assert_eq!(sha256_hex(&again), sha256_hex(&canonical));
        }
    }

    #[test]
    fn gate_c6_canonical_text_is_its_own(value in values()) {
        let once = text(&value).unwrap();
        prop_assert_eq!(text(&parse(once.as_bytes()).unwrap()).unwrap(), once);
    }

    #[test]
    fn gate_c6_other_values_have_other_texts(one in values(), other in values()) {
        prop_assert_eq!(one == other, text(&one).unwrap() == text(&other).unwrap());
    }
}
