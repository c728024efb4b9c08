use std::collections::BTreeSet;

use baton_core::runs::SubmitMessage;
use baton_core::sessions::CreateSession;

use super::*;

fn problems<T: Command + std::fmt::Debug>(text: &str) -> Vec<(String, String)> {
    parse::<T>(text.as_bytes()).unwrap_err().into_iter().map(|problem| (problem.path, problem.message)).collect()
}

fn problem<T: Command + std::fmt::Debug>(text: &str) -> (String, String) {
    let problems = problems::<T>(text);
    assert_eq!(problems.len(), 1, "{text}: {problems:?}");
    problems[0].clone()
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
        parse::<SubmitMessage>(br#"{"content":[{"type":"text","text":"a"}],"limits":{"max_steps":3.0,"max_tool_calls":1e2}}"#)
            .unwrap()
            .command
            .limits;
    assert_eq!((whole.max_steps, whole.max_tool_calls), (Some(3), Some(100)));
    let wrong = |limits: &str| {
        let text = format!(r#"{{"content":[{{"type":"text","text":"a"}}],"limits":{limits}}}"#);
        problems::<SubmitMessage>(&text).into_iter().map(|(path, _)| path).collect::<BTreeSet<_>>()
    };
    let one = |path: &str| BTreeSet::from([path.to_owned()]);
    for limits in [r#"{"max_steps":0.5}"#, r#"{"max_steps":1e99}"#, r#"{"max_steps":0}"#, r#"{"max_steps":"x"}"#] {
        assert_eq!(wrong(limits), one("/limits/max_steps"), "{limits}");
    }
    for cost in ["1e5", "1E2", "+1", ".5", "5.", "1_000", "0", "0.00", "1.00000000000", "1,5"] {
        assert_eq!(wrong(&format!(r#"{{"max_cost_usd":"{cost}"}}"#)), one("/limits/max_cost_usd"), "{cost}");
    }
    // The order of our fields is nobody's format.
    for limits in ["[5,6,7,8,9,\"0.5\",60]", "[]", "null", "7"] {
        assert_eq!(wrong(limits), one("/limits"), "{limits}");
    }
}

#[test]
fn a_problem_says_where_and_what() {
    for (text, path, message) in [
        ("", "", "not valid JSON: line 1, column 0"),
        ("[]", "", "a JSON object"),
        (r#"{"agent_id":"a","agent_id":"b"}"#, "", "two keys of an object are the same in canonical form"),
        ("{\"agent_id\":\"a\\u0000\"}", "", "a string holds NUL"),
        (r#"{"agent_id":"a","metadata":{"n":-0}}"#, "", "a number is not finite, or is minus zero"),
        ("{}", "/agent_id", "required"),
        (r#"{"agent_id":"a","m~/re":true}"#, "/m~0~1re", "unknown field"),
        (r#"{"agent_id":"a","metadata":[]}"#, "/metadata", "of type object"),
        (r#"{"agent_id":1}"#, "/agent_id", "of type string"),
    ] {
        assert_eq!(problem::<CreateSession>(text), (path.into(), message.into()), "{text}");
    }
    let text = r#"{"content":[{"type":"text","text":"a"},{"type":"image","text":""},["text","b"],1],"priority":"MAINTENANCE"}"#;
    let expected = [
        ("/content/1/text", "at least 1 characters"),
        ("/content/1/type", "one of text"),
        ("/content/2", "of type object"),
        ("/content/3", "of type object"),
        ("/priority", "one of INTERACTIVE, ASYNC"),
    ];
    let mut all = problems::<SubmitMessage>(text);
    all.sort();
    assert_eq!(all, expected.map(|(path, message)| (path.to_owned(), message.to_owned())));
}

#[test]
fn problems_repeat_no_value_and_are_few() {
    let many: Vec<String> = (0..10_000).map(|number| format!(r#""secret{number}":1"#)).collect();
    assert_eq!(problems::<CreateSession>(&format!(r#"{{"agent_id":"a",{}}}"#, many.join(","))).len(), 32);
    let (_, message) = problem::<SubmitMessage>(r#"{"content":[{"type":"text","text":"a"}],"priority":"planted"}"#);
    assert!(!message.contains("planted"), "{message}");
}

#[test]
fn case_j7_nesting_is_bounded() {
    let deep = format!(r#"{{"agent_id":"a","metadata":{{"x":{}{}}}}}"#, "[".repeat(500_000), "]".repeat(500_000));
    assert_eq!(problem::<CreateSession>(&deep).1, "nested deeper than 64");
}
