//! Answers without measure: each is cut, or is none, before it costs more than an answer may.

use baton_core::events::BODY_BYTES_MAX;
use serde_json::{Value, json};

use super::super::think::{Part, Thinking};
use super::*;

const CHAT: ProviderKind = ProviderKind::OpenaiChat;
const RESPONSES: ProviderKind = ProviderKind::OpenaiResponses;
const MESSAGES: ProviderKind = ProviderKind::Anthropic;

/// What comes of an answer in one piece.
fn outcome(kind: ProviderKind, messages: &[Value]) -> Result<Turn, ModelError> {
    let mut assembler = Assembler::default();
    let events = read(kind, [events(messages).as_slice()]);
    let turn = events.into_iter().find_map(|event| assembler.take(event)).expect("an end");
    turn.map_err(|failure| failure.error)
}

fn chat(delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({"choices": [{"delta": delta, "finish_reason": finish_reason}]})
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"tool_calls": [{"id": id, "function": {"name": name, "arguments": arguments}}]})
}

#[test]
fn a_text_in_one_piece_that_is_too_long_is_cut() {
    let text = "é".repeat(100_000);
    let item = json!({"type": "message", "content": [{"type": "output_text", "text": text}]});
    let answers = [
        (CHAT, vec![chat(&json!({"content": text}), Some("stop"))]),
        (RESPONSES, vec![json!({"type": "response.completed", "response": {"status": "completed", "output": [item]}})]),
        (MESSAGES, vec![json!({"type": "message", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"})]),
    ];
    for (kind, messages) in answers {
        let turn = outcome(kind, &messages).unwrap();
        assert!(turn.truncated && turn.text.len() > 100_000 && text.starts_with(&turn.text), "{kind:?}");
    }
}

/// What they begin with may be whole arguments, which the model did not write.
#[test]
fn arguments_that_are_too_long_are_none() {
    let (whole, garbage) = (r#"{"x":1}"#, "y".repeat(130_000));
    let (much, spaces) = (format!(r#"{{"x":"{garbage}"}}"#), " ".repeat(200_000));
    let just_short_enough = " ".repeat(112 * 1024 - 100);
    let pieces =
        [([whole, &just_short_enough], true), ([whole, &garbage], false), ([whole, &spaces], false), ([&much, ""], false)];
    for (pieces, is_kept) in pieces {
        let mut messages: Vec<Value> = pieces.map(|piece| chat(&call("a", "time_now", piece), None)).into();
        messages.push(chat(&json!({}), Some("tool_calls")));
        let turn = outcome(CHAT, &messages).unwrap();
        let arguments = &turn.tool_calls[0].arguments_raw;
        assert_eq!(serde_json::from_str::<Value>(arguments).is_ok(), is_kept, "{}", &arguments[..20]);
        assert_eq!((turn.truncated, arguments.ends_with('…')), (!is_kept, !is_kept));
    }
}

/// The longest of everything, of what takes two bytes for each.
#[test]
fn a_turn_fits_the_body_of_an_event() {
    let name = "\"".repeat(128);
    let mut messages: Vec<Value> = vec![chat(&json!({"content": "\\".repeat(200_000)}), None)];
    for number in 0..128 {
        let id = format!("{}{number:03}", "\\".repeat(125));
        messages.push(chat(&call(&id, &name, &"\"".repeat(10_000)), None));
    }
    messages.push(chat(&json!({}), Some("tool_calls")));
    let turn = outcome(CHAT, &messages).unwrap();
    assert!(turn.truncated);
    let bytes = [json!(turn.text), json!(turn.tool_calls)].map(|json| json.to_string().len()).iter().sum::<usize>();
    assert!(bytes < BODY_BYTES_MAX - 4_096, "{bytes} of {BODY_BYTES_MAX}");
}

#[test]
fn an_identifier_or_a_name_that_nobody_could_store_is_none() {
    let long = "i".repeat(129);
    for (id, name) in [("a\0", "time_now"), ("a", "time\u{1b}[2J"), (&long, "time_now"), ("a", &long)] {
        assert_eq!(
            outcome(CHAT, &[chat(&call(id, name, "{}"), Some("tool_calls"))]),
            Err(ModelError::Protocol),
            "{id:?} {name:?}"
        );
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        let message = json!({"type": "message", "content": [block], "stop_reason": "tool_use"});
        assert_eq!(outcome(MESSAGES, &[message]), Err(ModelError::Protocol), "{id:?} {name:?}");
    }
}

#[test]
fn calls_values_and_what_waits_have_a_measure() {
    let calls: Vec<Value> =
        (0..129).map(|id| json!({"id": id.to_string(), "function": {"name": "f", "arguments": "{}"}})).collect();
    assert!(outcome(CHAT, &[chat(&json!({"tool_calls": calls[..128]}), Some("tool_calls"))]).is_ok());
    assert_eq!(outcome(CHAT, &[chat(&json!({"tool_calls": calls}), Some("tool_calls"))]), Err(ModelError::Protocol));

    let many = json!({"unknown": vec![0; 50_000], "choices": []});
    assert_eq!(outcome(CHAT, &[many, chat(&json!({"content": "hi"}), Some("stop"))]), Err(ModelError::Protocol));

    // Behind a call that is not over pieces of two kinds wait.
    let pieces = [json!({"content": "x"}), json!({"reasoning": "x"})];
    let waiting: Vec<Value> = pieces.iter().cycle().take(2_000).map(|delta| chat(delta, None)).collect();
    let open = chat(&call("a", "time_now", r#"{"x":"#), None);
    assert_eq!(outcome(CHAT, &[vec![open], waiting].concat()), Err(ModelError::Protocol));

    let sealed = json!({"type": "reasoning", "encrypted_content": "x".repeat(1024 * 1024)});
    let done = |index| json!({"type": "response.output_item.done", "output_index": index, "item": sealed});
    assert_eq!(outcome(RESPONSES, &[done(0), done(1), done(2), done(3)]), Err(ModelError::Protocol));
}

#[test]
fn tags_of_thinking_by_the_thousands_are_read_once() {
    let mut thinking = Thinking::default();
    let parts = thinking.take(&format!("{}hi", "<think>x</think>".repeat(100_000)));
    assert_eq!((parts.len(), &parts[100_000]), (100_001, &Part::Text("hi".into())));
    let mut thinking = Thinking::default();
    let said: usize = (0..100_000).map(|_| thinking.take(" ").len()).sum();
    assert!(said > 90_000, "white space is text in the end");
}

#[test]
fn usage_that_counts_nothing_was_not_told() {
    let told = |usage: &Value| {
        let messages = [chat(&json!({"content": "hi"}), Some("stop")), json!({"choices": [], "usage": usage})];
        outcome(CHAT, &messages).unwrap().usage.map(|usage| (usage.input_tokens, usage.output_tokens))
    };
    assert_eq!(told(&json!({"prompt_tokens": 20, "completion_tokens": 7})), Some((20, 7)));
    assert_eq!(told(&json!({"prompt_tokens": "20", "completion_tokens": 7.0})), Some((20, 7)));
    for nonsense in [json!(-1), json!(1.5), json!(1e30), json!("many"), json!(null), json!([])] {
        assert_eq!(told(&json!({"prompt_tokens": nonsense, "completion_tokens": 7})), None, "{nonsense}");
    }
    assert_eq!(told(&json!({"junk": true})), None);
}
