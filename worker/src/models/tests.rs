//! The contract of all providers: what they ask, and what they make of answers, right and hostile.

mod answers;
mod bounds;
mod requests;
mod silence;
mod sockets;
mod tool_calls;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use baton_core::content::text_content;
use baton_core::events::ToolCall;
use baton_core::tools::{Idempotency, OutputTrust, Parallel, Risk, SideEffect, ToolKind, ToolSpec};
use serde_json::json;

use super::outgoing::Outgoing;
use super::reading::{Reader, Reading};
use baton_core::config::ProviderKind;
use baton_core::models::Endpoint;
use baton_core::outbound::{self, Client, Reach};

use super::account::Account;
use super::remote::Remote;
use super::tool_names::ToolNames;
use super::*;

const KINDS: [ProviderKind; 3] = [ProviderKind::OpenaiChat, ProviderKind::OpenaiResponses, ProviderKind::Anthropic];

/// Making one reads the machine's certificates, which takes longer than a test.
static CLIENTS: LazyLock<[Client; 2]> =
    LazyLock::new(|| [Reach::Private, Reach::Public].map(|reach| Client::new(reach).unwrap()));

fn remote(kind: ProviderKind, base_url: &str) -> Remote {
    let [private, public] = &*CLIENTS;
    let (reach, client) = if base_url.starts_with("http://127.") { (Reach::Private, private) } else { (Reach::Public, public) };
    let base = outbound::Endpoint::parse(base_url, reach).unwrap();
    let endpoint = Endpoint { kind, base, api_key_env: None, done_is_end: false };
    let account = Arc::new(Account::new("mine", endpoint, Some("secret".into()), client.clone()));
    Remote { account, model: "large".into(), temperature: Some(0.5) }
}

pub(super) fn tool(name: &'static str) -> ToolSpec {
    ToolSpec {
        name,
        version: "1",
        description: "Does it.",
        input_schema: json!({"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": false}),
        output_schema: None,
        side_effect: SideEffect::None,
        risk: Risk::Low,
        idempotency: Idempotency::ReadOnly,
        required_scopes: &[],
        timeout: Duration::from_secs(1),
        max_output_bytes: 1_000,
        parallel: Parallel::Allowed,
        kind: ToolKind::Capability,
        output_trust: OutputTrust::Own,
    }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let agent = json!({"id": "mine", "version": "1", "name": "Mine", "model": "m", "instructions": "Be brief."});
    ModelRequest {
        agent: Arc::new(serde_json::from_value(agent).unwrap()),
        tools: [tool("math.calculate"), tool("time.now")].into(),
        messages,
        input: text_content("go"),
        step: 1,
        attempt: 1,
        turn: 0,
        continuations: BTreeMap::new(),
        max_output_tokens: 1_000,
    }
}

fn user(text: &str) -> Message {
    Message::User { content: text_content(text) }
}

fn assistant(text: &str, calls: &[(&str, &str, &str)]) -> Message {
    let call = |(index, (id, name, arguments)): (u32, &(&str, &str, &str))| ToolCall {
        arguments_raw: (*arguments).into(),
        call_id: (*id).into(),
        index,
        name: (*name).into(),
    };
    Message::Assistant { text: text.into(), tool_calls: (0..).zip(calls).map(call).collect() }
}

/// The normalized stream of these bytes, cut like this.
fn read<'a>(kind: ProviderKind, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<ModelEvent> {
    let names = ToolNames::new(&[tool("math.calculate"), tool("time.now")]);
    read_by(remote(kind, "http://localhost").reader(names), pieces)
}

fn read_by<'a>(reader: Box<dyn Reader>, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<ModelEvent> {
    let mut reading = Reading::new(reader, Outgoing::new(1), None);
    let mut events = Vec::new();
    for piece in pieces {
        if !reading.is_over() {
            events.extend(reading.push(piece));
        }
    }
    if !reading.is_over() {
        events.extend(reading.end());
    }
    events
}

/// What comes of a stream, which is the same however it is cut, and a normalized one.
fn turn(kind: ProviderKind, bytes: &[u8]) -> Result<Turn, ModelError> {
    let whole = read(kind, [bytes]);
    assert_eq!(read(kind, bytes.chunks(1)), whole, "byte by byte: {}", String::from_utf8_lossy(bytes));
    for at in 1..bytes.len() {
        assert_eq!(read(kind, [&bytes[..at], &bytes[at..]]), whole, "cut at {at}");
    }
    let stream = checked::checked(Box::pin(futures::stream::iter(whole.clone())));
    assert_eq!(futures::executor::block_on_stream(Box::pin(stream)).collect::<Vec<_>>(), whole, "keeps to the invariants");
    let mut assembler = Assembler::default();
    let turn = whole.into_iter().find_map(|event| assembler.take(event)).expect("an end");
    turn.map_err(|failure| failure.error)
}

/// Messages as events.
fn events(messages: &[serde_json::Value]) -> Vec<u8> {
    messages.iter().map(|message| format!("data: {message}\n\n")).collect::<String>().into_bytes()
}

/// Identifiers, names and arguments.
fn calls(turn: &Turn) -> Vec<(&str, &str, &str)> {
    turn.tool_calls.iter().map(|call| (&*call.call_id, &*call.name, &*call.arguments_raw)).collect()
}

#[test]
fn each_turn_of_the_run_gets_its_own_continuation_back() {
    let mut request = request(vec![
        Message::Note { text: "left out".into() },
        user("a"),
        assistant("of an earlier run", &[]),
        user("b"),
        assistant("", &[("1", "time.now", "{}")]),
        Message::ToolResult { call_id: "1".into(), text: "{}".into() },
        assistant("", &[("2", "time.now", "{}")]),
        Message::ToolResult { call_id: "2".into(), text: "{}".into() },
    ]);
    (request.turn, request.step) = (2, 3);
    request.continuations = [(1, b"one".as_slice().into()), (2, b"two".as_slice().into())].into();
    let attached = |request: &ModelRequest| -> Vec<(usize, Vec<u8>)> {
        let messages = request.messages().enumerate();
        messages.filter_map(|(at, (_, continuation))| Some((at, continuation?.to_vec()))).collect()
    };
    assert_eq!(attached(&request), [(4, b"one".to_vec()), (6, b"two".to_vec())]);
    // What history is left of an earlier time does not shift them.
    request.messages.drain(1..3);
    assert_eq!(attached(&request), [(2, b"one".to_vec()), (4, b"two".to_vec())]);
    request.messages.drain(1..4); // the first turn of the run itself is gone
    assert_eq!(attached(&request), [(1, b"two".to_vec())]);
}
