//! How servers of the chat format cut calls.

use baton_core::events::Stop;
use serde_json::Value;

use super::*;

/// The calls of a stream with these lists of pieces, each `(index, id, name, arguments)` with null for what is absent.
fn check(chunks: &[Value], expected: &[(&str, &str, &str)]) {
    let piece = |piece: &Value| json!({"index": piece[0], "id": piece[1], "function": {"name": piece[2], "arguments": piece[3]}});
    let chunk = |pieces: &Value| {
        let pieces: Vec<Value> = pieces.as_array().unwrap().iter().map(piece).collect();
        json!({"choices": [{"delta": {"tool_calls": pieces}}]})
    };
    let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
    let messages: Vec<Value> = chunks.iter().map(chunk).chain([end]).collect();
    let turn = turn(ProviderKind::OpenaiChat, &events(&messages)).unwrap();
    assert_eq!(calls(&turn), expected, "{chunks:?}");
    assert_eq!(turn.stop, Stop::ToolUse);
}

#[test]
fn case_f1_two_calls_share_an_index() {
    let chunks =
        [json!([[0, "a", "f", r#"{"p":"a"}"#]]), json!([[0, "b", "g", r#"{"p":"#]]), json!([[1, null, null, r#""b"}"#]])];
    check(&chunks, &[("a", "f", r#"{"p":"a"}"#), ("b", "g", r#"{"p":"b"}"#)]);
    // A known identifier wins over the index.
    let chunks = [json!([[0, "a", "f", "{"]]), json!([[1, "b", "g", "{"]]), json!([[1, "a", null, "}"], [0, "b", null, "}"]])];
    check(&chunks, &[("a", "f", "{}"), ("b", "g", "{}")]);
}

#[test]
fn case_f2_one_call_in_two_pieces_of_a_chunk() {
    check(
        &[json!([[0, "a", "f", null], [0, null, null, r#"{"x":"#]]), json!([[0, null, null, "1}"]])],
        &[("a", "f", r#"{"x":1}"#)],
    );
}

#[test]
fn case_f3_index_or_identifier_missing() {
    check(&[json!([[null, "a", "f", "{"]]), json!([[null, null, null, "}"]])], &[("a", "f", "{}")]);
    check(&[json!([[0, null, "f", "{}"]]), json!([[0, null, "g", "{}"]])], &[("call_1_0", "f", "{}"), ("call_1_1", "g", "{}")]);
    check(&[json!([[0, null, "f", "{"]]), json!([[0, "late", null, "}"]])], &[("late", "f", "{}")]);
    check(&[json!([[0, "a", "f", "{"]]), json!([[0, "a", "f", "}"]])], &[("a", "f", "{}")]);
    check(&[json!([[0, "a", "f", "{}"]]), json!([[2, "b", "g", "{}"]])], &[("a", "f", "{}"), ("b", "g", "{}")]);
    check(&[json!([[-1, "a", "f", "{}"], [u64::MAX, "b", "g", "{}"]])], &[("a", "f", "{}"), ("b", "g", "{}")]);
}

#[test]
fn calls_that_alternate_go_out_one_after_the_other() {
    let chunks = [
        json!([[0, "a", "math_calculate", "{\"x\""], [1, "b", "g", "{\"y\""]]),
        json!([[1, null, null, ":2}"], [0, null, null, ":1}"]]),
    ];
    check(&chunks, &[("a", "math.calculate", r#"{"x":1}"#), ("b", "g", r#"{"y":2}"#)]);
}

#[test]
fn gate_d3_case_f5_arguments_stay_as_they_came() {
    check(&[json!([[0, "a", "f", r#"{"action": listt"}"#]])], &[("a", "f", r#"{"action": listt"}"#)]);
    check(&[json!([[0, "a", "f", {"x": 1.0}]])], &[("a", "f", r#"{"x":1.0}"#)]);
    check(&[json!([[0, "a", "f", null]])], &[("a", "f", "")]);
}

#[test]
fn a_call_without_a_name_is_none() {
    let piece = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{}"}}]}}]});
    let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
    assert_eq!(turn(ProviderKind::OpenaiChat, &events(&[piece, end])), Err(ModelError::Protocol));
}
