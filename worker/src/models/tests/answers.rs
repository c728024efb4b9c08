//! What answers become: each fixture, hostile bytes, and every way to end.

use baton_core::events::{Stop, TokenUsage};
use baton_devmodel::{Call, Format, Turn as Said};
use serde_json::Value;

use super::super::openai_chat::ChatReader;
use super::*;

const CHAT: ProviderKind = ProviderKind::OpenaiChat;
const RESPONSES: ProviderKind = ProviderKind::OpenaiResponses;
const MESSAGES: ProviderKind = ProviderKind::Anthropic;

fn format(kind: ProviderKind) -> Format {
    match kind {
        ProviderKind::OpenaiChat => Format::OpenaiChat,
        ProviderKind::OpenaiResponses => Format::OpenaiResponses,
        ProviderKind::Anthropic => Format::Anthropic,
    }
}

fn chat_text(text: &str, reason: &str) -> Vec<u8> {
    events(&[json!({"choices": [{"delta": {"content": text}, "finish_reason": reason}]})])
}

fn reasoning(events: &[ModelEvent]) -> String {
    let pieces = events.iter().filter_map(|event| match event {
        ModelEvent::ReasoningDelta(text) => Some(text.as_str()),
        _ => None,
    });
    pieces.collect()
}

#[test]
fn gate_d1_case_f14_every_provider_says_the_same_however_it_is_framed() {
    let call = |id: &str, name: &str, arguments: &str| Call { id: id.into(), name: name.into(), arguments: arguments.into() };
    let said = Said {
        reasoning: "hm 杭".into(),
        text: "In 杭州 🦀".into(),
        calls: vec![call("call_Ü/1", "math_calculate", r#"{"city":"杭州 🦀"}"#), call("b", "time_now", "{}")],
    };
    for kind in KINDS {
        let stream = format(kind).events(&said);
        let turn = turn(kind, stream.as_bytes()).unwrap();
        assert_eq!(turn.text, said.text);
        assert_eq!(calls(&turn), [("call_Ü/1", "math.calculate", r#"{"city":"杭州 🦀"}"#), ("b", "time.now", "{}")], "gate_d2");
        assert_eq!(turn.stop, Stop::ToolUse);
        assert_eq!(turn.usage, Some(TokenUsage { input_tokens: 20, output_tokens: 7, ..TokenUsage::default() }));
        assert!(turn.request_id.is_some());
        assert_eq!(turn.continuation.is_some(), kind != CHAT);
        assert_eq!(reasoning(&read(kind, [stream.as_bytes()])), said.reasoning);
        // Line ends, comments, fields that nobody needs, a byte order mark: the same.
        for (from, to) in [("\n", "\r"), ("\n", "\r\n"), ("data: ", ": ping\nevent: x\nretry: 1\ndata:")] {
            let other = format!("\u{feff}{}", stream.replace(from, to));
            assert_eq!(read(kind, [other.as_bytes()]), read(kind, [stream.as_bytes()]));
            assert_eq!(read(kind, other.as_bytes().chunks(1)), read(kind, [stream.as_bytes()]));
        }
    }
}

/// Whole answers as the public formats have them, one for each.
#[test]
fn gate_d1_fixtures() {
    let usage = |input_tokens, cached, written, output_tokens, reasoning_tokens| {
        let [cached_input_tokens, cache_write_input_tokens] = [cached, written];
        Some(TokenUsage { cache_write_input_tokens, cached_input_tokens, input_tokens, output_tokens, reasoning_tokens })
    };
    let chat = turn(CHAT, include_bytes!("../fixtures/openai_chat.sse")).unwrap();
    assert_eq!(calls(&chat), [("call_DdmO9pD3xa9XTPNJ32zg2hcA", "math.calculate", r#"{"expression":"2+2"}"#)]);
    assert_eq!((chat.stop, chat.usage), (Stop::ToolUse, usage(82, 64, 0, 17, 5)));
    let messages = turn(MESSAGES, include_bytes!("../fixtures/anthropic.sse")).unwrap();
    assert_eq!(messages.text, "Okay, let's check:");
    assert_eq!(calls(&messages), [("toolu_01T1x1fJ34qAmk2tNTrN7Up6", "math.calculate", r#"{"expression": "2+2"}"#)]);
    assert_eq!((messages.stop, messages.usage), (Stop::ToolUse, usage(472 + 100 + 30, 100, 30, 89, 0)));
    let thinking: Value = serde_json::from_slice(&messages.continuation.unwrap()).unwrap();
    let expected = json!([
        {"type": "thinking", "thinking": "Let me see.", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk="},
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"},
        "text",
        "call",
    ]);
    assert_eq!(thinking, expected);
    let responses = turn(RESPONSES, include_bytes!("../fixtures/openai_responses.sse")).unwrap();
    assert_eq!(calls(&responses), [("call_unDRkPyBmnPmJ5ZUYqcRj1Uf", "math.calculate", r#"{"expression":"2+2"}"#)]);
    assert_eq!((responses.stop, responses.usage), (Stop::ToolUse, usage(291, 128, 0, 23, 12)));
    let kept: Value = serde_json::from_slice(&responses.continuation.unwrap()).unwrap();
    assert_eq!((&kept[0]["id"], &kept[0]["encrypted_content"]), (&json!("rs_68af"), &json!("gAAAAABoISQ24OyVRYbk")));
}

#[test]
fn an_answer_that_was_not_streamed_is_one() {
    let chat =
        json!({"id": "x", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}});
    let messages =
        json!({"type": "message", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn", "usage": {}});
    let item = json!({"type": "message", "content": [{"type": "output_text", "text": "hi"}]});
    let responses = json!({"object": "response", "status": "completed", "output": [item]});
    for (kind, body) in [(CHAT, chat), (MESSAGES, messages), (RESPONSES, responses)] {
        let turn = turn(kind, format!("\n {body}").as_bytes()).unwrap();
        assert_eq!((turn.text.as_str(), turn.stop), ("hi", Stop::EndTurn));
    }
}

#[test]
fn case_f9_a_stream_that_breaks_off_is_no_answer() {
    let said = Said { text: "In 杭州".into(), ..Said::call("a", "time_now", r#"{"x":1}"#) };
    for kind in KINDS {
        let stream = format(kind).events(&said);
        // The model's end is in the last messages; before them no cut makes an answer.
        let end = ["\"finish_reason\":\"tool_calls\"", "\"stop_reason\"", "\"response.completed\""];
        let end = end.iter().find_map(|end| stream.find(end)).unwrap();
        for at in 0..end {
            let last = read(kind, [&stream.as_bytes()[..at]]).pop();
            assert_eq!(
                last.map(|event| matches!(event, ModelEvent::Failed(failure) if failure.error == ModelError::Transient)),
                Some(true),
                "{at}"
            );
        }
    }
}

#[test]
fn case_f10_case_f11_the_reason_to_stop_is_the_end_and_nothing_else() {
    assert_eq!(turn(CHAT, &chat_text("hi", "stop")).unwrap().stop, Stop::EndTurn);
    let without = events(&[json!({"choices": [{"delta": {"content": "hi"}}]}), json!({"choices": [], "usage": {}})]);
    assert_eq!(turn(CHAT, &[without.as_slice(), b"data: [DONE]\n\n"].concat()), Err(ModelError::Transient));
    let unterminated = chat_text("hi", "stop");
    assert_eq!(turn(CHAT, &unterminated[..unterminated.len() - 2]).unwrap().text, "hi", "its last event ends with the stream");
}

/// Of a provider that never says why it stopped, where its settings say so.
#[test]
fn case_f11_done_may_end_a_text_and_never_calls() {
    let outcome = |said: &[Value], done: &str| {
        let reader = ChatReader::new(ToolNames::new(&[tool("time.now")]), true);
        read_by(Box::new(reader), [events(said).as_slice(), done.as_bytes()]).pop()
    };
    let is_whole = |end: Option<ModelEvent>| match end {
        Some(ModelEvent::Completed(_)) => true,
        Some(ModelEvent::Failed(failure)) if failure.error == ModelError::Transient => false,
        end => panic!("{end:?}"),
    };
    let text = json!({"choices": [{"delta": {"content": "hi"}}]});
    let call =
        json!({"choices": [{"delta": {"tool_calls": [{"id": "a", "function": {"name": "time_now", "arguments": "{}"}}]}}]});
    let done = "data: [DONE]\n\n";
    assert!(is_whole(outcome(std::slice::from_ref(&text), done)));
    assert!(!is_whole(outcome(std::slice::from_ref(&text), "")), "cut off");
    assert!(!is_whole(outcome(&[text, call.clone()], done)) && !is_whole(outcome(&[call], done)));
}

#[test]
fn case_f6_case_f21_reasons_to_stop() {
    let call = json!({"choices": [{"delta": {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}, "finish_reason": "length"}]});
    let cut_off = turn(CHAT, &events(&[call])).unwrap();
    assert_eq!((cut_off.stop, cut_off.tool_calls.len()), (Stop::MaxTokens, 1));
    for (reason, stop) in [("MAX_TOKENS", Stop::MaxTokens), ("content_filter", Stop::ContentFilter), ("eos", Stop::EndTurn)] {
        assert_eq!(turn(CHAT, &chat_text("hi", reason)).unwrap().stop, stop);
    }
    assert_eq!(turn(CHAT, &chat_text("", "content_filter")), Err(ModelError::Permanent), "asking again brings the same");
    assert_eq!(turn(CHAT, &chat_text("hi", "error")), Err(ModelError::Transient));
    let refusal = events(&[json!({"choices": [{"delta": {"refusal": "no"}, "finish_reason": "stop"}]})]);
    assert_eq!(turn(CHAT, &refusal).unwrap().stop, Stop::ContentFilter);
    for (reason, stop) in [("max_tokens", Stop::MaxTokens), ("refusal", Stop::ContentFilter), ("stop_sequence", Stop::EndTurn)] {
        let document = json!({"type": "message", "content": [{"type": "text", "text": "hi"}], "stop_reason": reason});
        assert_eq!(turn(MESSAGES, document.to_string().as_bytes()).unwrap().stop, stop);
    }
    for (reason, stop) in [("max_output_tokens", Stop::MaxTokens), ("content_filter", Stop::ContentFilter)] {
        let item = json!({"type": "message", "content": [{"type": "output_text", "text": "hi"}]});
        let response = json!({"status": "incomplete", "incomplete_details": {"reason": reason}, "output": [item]});
        let event = json!({"type": "response.incomplete", "response": response});
        assert_eq!(turn(RESPONSES, &events(&[event])).unwrap().stop, stop);
    }
}

#[test]
fn case_f13_bytes_that_are_no_text_are_an_error() {
    for kind in KINDS {
        assert_eq!(turn(kind, b"data: {\"x\":\"\xff\"}\n\n"), Err(ModelError::Protocol));
        assert_eq!(turn(kind, b"data: {\"x\":\"\xf0\x9f"), Err(ModelError::Transient), "cut off within a character");
    }
}

#[test]
fn case_f15_halves_of_a_pair_do_not_end_a_run() {
    let chunk = |content: &str, reason: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{content}\"}},\"finish_reason\":{reason}}}]}}\n\n")
    };
    let stream = chunk("a\\ud83d", "null") + &chunk("\\ude00 \\ud83d\\ude00 \\\\ud83d", "\"stop\"");
    assert_eq!(turn(CHAT, stream.as_bytes()).unwrap().text, "a\u{fffd}\u{fffd} 😀 \\ud83d");
}

#[test]
fn case_f18_errors_in_a_stream() {
    let overflow = json!({"error": {"message": "This model's maximum context length is 8192 tokens.", "code": 400}});
    assert_eq!(turn(CHAT, &events(&[overflow])), Err(ModelError::ContextOverflow));
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert_eq!(turn(MESSAGES, &events(&[overloaded])), Err(ModelError::Transient));
    let too_long = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 2 > 1"}});
    assert_eq!(turn(MESSAGES, &events(&[too_long])), Err(ModelError::ContextOverflow));
    let code =
        |code: &str| json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": code, "message": ""}}});
    assert_eq!(turn(RESPONSES, &events(&[code("context_length_exceeded")])), Err(ModelError::ContextOverflow));
    assert_eq!(turn(RESPONSES, &events(&[code("server_error")])), Err(ModelError::Transient));
    let plain = json!({"type": "error", "code": "invalid_prompt", "message": "no"});
    assert_eq!(turn(RESPONSES, &events(&[plain])), Err(ModelError::Permanent));
}

#[test]
fn case_f19_nothing_said_is_no_turn() {
    for text in ["", " ", "\n", "<think>all of it"] {
        assert_eq!(turn(CHAT, &chat_text(text, "stop")), Err(ModelError::Empty));
    }
}

#[test]
fn case_f14_whatever_else_a_server_sends_is_understood_or_refused() {
    assert_eq!(turn(CHAT, b"<html><body>Sign in</body></html>"), Err(ModelError::Protocol));
    assert_eq!(turn(CHAT, b""), Err(ModelError::Transient));
    assert_eq!(turn(CHAT, b"data: {oops\n\n"), Err(ModelError::Protocol));
    let odd = [
        json!({"type": "response.future", "x": 1}),
        json!({"choices": [], "prompt_filter_results": []}),
        json!({"choices": [{"delta": {"content": [{"type": "text", "text": "h"}], "x": null}, "finish_reason": null, "logprobs": {}}]}),
        json!({"choices": [{"index": 0, "delta": {"content": "i"}}, {"index": 1, "delta": {"content": "other"}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
    ];
    assert_eq!(turn(CHAT, &events(&odd)).unwrap().text, "hi");
    let lines = "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    for end in ["\n", "\r", "\r\n"] {
        let turn = turn(CHAT, lines.replace('\n', end).as_bytes()).unwrap();
        assert_eq!(turn.text, "hi", "one message in two lines that end in {end:?}");
    }
    // A line without end is cut short, not collected.
    let mut pieces = vec![b"data: ".as_slice()];
    let piece = vec![b'x'; 1024 * 1024];
    pieces.extend(std::iter::repeat_n(piece.as_slice(), 9));
    assert_eq!(read(CHAT, pieces).last(), Some(&ModelEvent::Failed(ModelError::Protocol.into())));
}

#[test]
fn reasoning_in_the_text_is_told_from_it() {
    let stream = chat_text("<think>secret <b></think>\n\nThe tag <think> is", "stop");
    let turn = turn(CHAT, &stream).unwrap();
    assert_eq!(turn.text, "The tag <think> is");
    assert_eq!(reasoning(&read(CHAT, [stream.as_slice()])), "secret <b>");
}
