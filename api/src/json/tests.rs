use baton_core::runs::SubmitMessage;
use baton_core::sessions::CreateSession;

use super::*;

fn problem<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> (String, String) {
    let Problem { path, message } = parse::<T>(text.as_bytes()).unwrap_err();
    (path, message)
}

#[test]
fn the_canonical_text_is_kept() {
    let parsed = parse::<CreateSession>(br#" {"metadata": {"b": 1.0, "c": 2, "a": []}, "agent_id": "demo"} "#).unwrap();
    assert_eq!(parsed.command.agent_id, "demo");
    assert_eq!(parsed.canonical_text, r#"{"agent_id":"demo","metadata":{"a":[],"b":1,"c":2}}"#);
}

#[test]
fn limits_are_numbers() {
    let text = br#"{"content":[{"type":"text","text":"a"}],"limits":{"max_steps":3,"max_input_tokens":20000000000,"max_cost_usd":"0.5"}}"#;
    let limits = parse::<SubmitMessage>(text).unwrap().command.limits;
    assert_eq!((limits.max_steps, limits.max_input_tokens), (Some(3), Some(20_000_000_000)));
    let whole =
        parse::<SubmitMessage>(br#"{"content":[],"limits":{"max_steps":3.0,"max_tool_calls":1e2}}"#).unwrap().command.limits;
    assert_eq!((whole.max_steps, whole.max_tool_calls), (Some(3), Some(100)));
    assert_eq!(problem::<SubmitMessage>(r#"{"content":[],"limits":{"max_steps":0.5}}"#).0, "/limits/max_steps");
    assert_eq!(problem::<SubmitMessage>(r#"{"content":[],"limits":{"max_steps":1e99}}"#).0, "/limits/max_steps");
}

#[test]
fn a_problem_says_where_and_what() {
    for (text, path, message) in [
        ("", "", "not valid JSON: line 1, column 0"),
        ("[]", "", "a JSON object"),
        (r#"{"agent_id":"a","agent_id":"b"}"#, "", "two keys of an object are the same in canonical form"),
        ("{\"agent_id\":\"a\\u0000\"}", "", "a string holds NUL"),
        (r#"{"agent_id":"a","metadata":{"n":-0}}"#, "", "a number is not finite, or is minus zero"),
        ("{}", "", "missing field `agent_id`"),
        (r#"{"agent_id":"a","more":true}"#, "/more", "unknown field `more`, expected `agent_id` or `metadata`"),
        (r#"{"agent_id":"a","metadata":[]}"#, "/metadata", "invalid type: sequence, expected a map"),
    ] {
        assert_eq!(problem::<CreateSession>(text), (path.into(), message.into()), "{text}");
    }
    let (path, _) = problem::<SubmitMessage>(r#"{"content":[{"type":"text","text":"a"},{"type":"image"}]}"#);
    assert_eq!(path, "/content/1/type");
    let (path, _) = problem::<SubmitMessage>(r#"{"content":[],"limits":{"max_steps":"x"}}"#);
    assert_eq!(path, "/limits/max_steps");
}

#[test]
fn a_message_is_short_however_long_its_value_is() {
    let (_, message) = problem::<SubmitMessage>(&format!(r#"{{"content":[],"priority":{{"{}":true}}}}"#, "x".repeat(10_000)));
    assert!(message.chars().count() <= MESSAGE_CHARS_MAX, "{message}");
}

#[test]
fn case_j7_nesting_is_bounded() {
    let deep = format!(r#"{{"agent_id":"a","metadata":{{"x":{}{}}}}}"#, "[".repeat(500_000), "]".repeat(500_000));
    assert_eq!(problem::<CreateSession>(&deep).1, "nested deeper than 64");
}
