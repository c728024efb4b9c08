//! A turn of a model in each of the formats, and what can go wrong with it.

use serde_json::{Value, json};

use crate::answer::{Answer, Play};

/// How a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    OpenaiChat,
    OpenaiResponses,
    Anthropic,
}

/// What the model says, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    pub reasoning: String,
    pub text: String,
    pub calls: Vec<Call>,
}

/// `name` as the provider knows it: without dots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// What a provider does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The status, with an error of the format.
    Status(u16),
    /// 429, and to come again at once.
    RateLimited,
    /// A proxy's page.
    Page(u16),
    /// The stream ends in the middle, as if it were over.
    Cut,
    /// It is reset there.
    Reset,
    /// It stops there, and the connection stays.
    Hang,
    /// An error in a stream that began well.
    ErrorInStream,
    /// What is neither events nor JSON.
    Garbage,
    /// Bytes that are no UTF-8.
    NotUtf8,
    /// A turn without text and calls.
    Empty,
    /// Every byte alone, which is slow but right.
    Drip,
}

impl Fault {
    /// Every kind once, the ones that hang left out: they take as long as the client waits.
    pub const PROMPT: [Self; 11] = [
        Self::Status(500),
        Self::Status(529),
        Self::RateLimited,
        Self::Page(502),
        Self::Cut,
        Self::Reset,
        Self::ErrorInStream,
        Self::Garbage,
        Self::NotUtf8,
        Self::Empty,
        Self::Drip,
    ];
}

impl Turn {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub fn call(id: &str, name: &str, arguments: &str) -> Self {
        let call = Call { id: id.into(), name: name.into(), arguments: arguments.into() };
        Self { calls: vec![call], ..Self::default() }
    }
}

impl Answer {
    /// A turn, spoiled or not.
    pub fn turn(format: Format, turn: &Turn, fault: Option<Fault>) -> Self {
        let events = format.events(turn);
        let half = || &events[..events.len() / 2];
        let error = || json!({"type": "error", "error": {"type": "server_error", "message": "told by the double"}}).to_string();
        match fault {
            None => Self::events(events),
            Some(Fault::Status(status)) => Self::new(status, &["content-type: application/json"], error()),
            Some(Fault::RateLimited) => Self::new(429, &["retry-after: 0"], error()),
            Some(Fault::Page(status)) => Self::new(status, &["content-type: text/html"], "<html>told by the double</html>"),
            Some(Fault::Cut) => Self::events(half()),
            Some(Fault::Reset) => Self::events(half()).then(Play::Reset),
            Some(Fault::Hang) => Self::events(half()).then(Play::Hang),
            Some(Fault::ErrorInStream) => Self::events(format!("{}\n\ndata: {}\n\n", whole_events(half()), error())),
            Some(Fault::Garbage) => Self::events("data: {told by the double\n\n"),
            Some(Fault::NotUtf8) => Self::events(b"data: {\"\xff\xfe\":1}\n\n"),
            Some(Fault::Empty) => Self::events(format.events(&Turn::default())),
            Some(Fault::Drip) => Self::events(events).dripping(),
        }
    }
}

/// Up to the end of the last event that is whole.
fn whole_events(half: &str) -> &str {
    half.rsplit_once("\n\n").map_or("", |(whole, _)| whole)
}

impl Format {
    pub(crate) fn of_path(path: &str) -> Self {
        match path {
            path if path.ends_with("/messages") => Self::Anthropic,
            path if path.ends_with("/responses") => Self::OpenaiResponses,
            _ => Self::OpenaiChat,
        }
    }

    /// The turn as a stream of events.
    pub fn events(self, turn: &Turn) -> String {
        let messages = match self {
            Self::OpenaiChat => chat(turn),
            Self::OpenaiResponses => responses(turn),
            Self::Anthropic => anthropic(turn),
        };
        let mut events: String = messages.iter().map(|message| format!("data: {message}\n\n")).collect();
        if self == Self::OpenaiChat {
            events.push_str("data: [DONE]\n\n");
        }
        events
    }
}

/// Two halves of a text, cut at a character; of none, nothing.
fn halves(text: &str) -> impl Iterator<Item = &str> {
    let middle = (text.len() / 2..).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let (first, second) = text.split_at(middle);
    [first, second].into_iter().filter(|half| !half.is_empty())
}

fn chat(turn: &Turn) -> Vec<Value> {
    let chunk = |delta: Value, reason: Value| json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    chunks.extend(halves(&turn.reasoning).map(|piece| chunk(json!({"reasoning_content": piece}), Value::Null)));
    chunks.extend(halves(&turn.text).map(|piece| chunk(json!({"content": piece}), Value::Null)));
    for (index, call) in turn.calls.iter().enumerate() {
        let function = json!({"name": call.name, "arguments": ""});
        let begin = json!({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]});
        chunks.push(chunk(begin, Value::Null));
        chunks.extend(
            halves(&call.arguments)
                .map(|piece| chunk(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), Value::Null)),
        );
    }
    chunks.push(chunk(json!({}), if turn.calls.is_empty() { "stop" } else { "tool_calls" }.into()));
    chunks.push(
        json!({"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27}}),
    );
    chunks
}

fn responses(turn: &Turn) -> Vec<Value> {
    let mut events = vec![json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}})];
    let mut output = Vec::new();
    if !turn.reasoning.is_empty() {
        let delta = |piece| json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": piece});
        events.extend(halves(&turn.reasoning).map(delta));
        output.push(json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"}));
        events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": output[0]}));
    }
    if !turn.text.is_empty() {
        let index = output.len();
        let delta = |piece| json!({"type": "response.output_text.delta", "output_index": index, "delta": piece});
        events.extend(halves(&turn.text).map(delta));
        output.push(json!({"type": "message", "content": [{"type": "output_text", "text": turn.text}]}));
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": output[index]}));
    }
    for call in &turn.calls {
        let index = output.len();
        let item =
            |arguments: &str| json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments});
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": item("")}));
        let delta = |piece| json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": piece});
        events.extend(halves(&call.arguments).map(delta));
        output.push(item(&call.arguments));
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": output[index]}));
    }
    let usage = json!({"input_tokens": 20, "output_tokens": 7});
    let response = json!({"id": "resp_1", "status": "completed", "output": output, "usage": usage});
    events.push(json!({"type": "response.completed", "response": response}));
    events
}

fn anthropic(turn: &Turn) -> Vec<Value> {
    let usage = json!({"input_tokens": 20, "output_tokens": 1});
    let mut events = vec![json!({"type": "message_start", "message": {"id": "msg_1", "usage": usage}}), json!({"type": "ping"})];
    let mut index = 0;
    let mut block = |begin: Value, deltas: Vec<Value>| {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begin}));
        events.extend(deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
        events.push(json!({"type": "content_block_stop", "index": index}));
        index += 1;
    };
    let pieces = |kind: &str, field: &str, text: &str| -> Vec<Value> {
        halves(text).map(|piece| json!({"type": kind, field: piece})).collect()
    };
    if !turn.reasoning.is_empty() {
        let mut deltas = pieces("thinking_delta", "thinking", &turn.reasoning);
        deltas.push(json!({"type": "signature_delta", "signature": "c2VhbGVk"}));
        block(json!({"type": "thinking", "thinking": ""}), deltas);
    }
    if !turn.text.is_empty() {
        block(json!({"type": "text", "text": ""}), pieces("text_delta", "text", &turn.text));
    }
    for call in &turn.calls {
        let begin = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        block(begin, pieces("input_json_delta", "partial_json", &call.arguments));
    }
    let reason = if turn.calls.is_empty() { "end_turn" } else { "tool_use" };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}));
    events.push(json!({"type": "message_stop"}));
    events
}
