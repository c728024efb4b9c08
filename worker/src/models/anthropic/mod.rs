//! `/v1/messages` of Anthropic.

mod reader;

use baton_core::content::text_of;
use baton_core::execution::Message;
use serde_json::{Value, json};

use crate::models::tool_names::ToolNames;
use crate::models::{Continuation, ModelRequest, json, sealed};

pub(super) use reader::MessagesReader;

/// Of the format, in a header of every request.
pub(super) const VERSION: &str = "2023-06-01";

/// The types of blocks that have to be handed back; their signatures are checked.
const THINKING: [&str; 2] = ["thinking", "redacted_thinking"];

pub(super) fn body(request: &ModelRequest, names: &ToolNames) -> Value {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for (message, continuation) in request.messages() {
        let (role, blocks) = blocks(message, continuation, names);
        match turns.last_mut() {
            // Roles take turns: results and what the user says behind them are one message.
            Some((last, all)) if *last == role => all.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => turns.push((role, blocks)),
        }
    }
    let messages = turns.into_iter().map(|(role, content)| json!({"role": role, "content": content}));
    let mut body = json!({
        "max_tokens": request.max_output_tokens,
        "messages": messages.collect::<Vec<_>>(),
        "stream": true,
    });
    if !request.agent.instructions.is_empty() {
        body["system"] = request.agent.instructions.as_str().into();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(
            |tool| json!({"name": names.theirs(tool.name), "description": tool.description, "input_schema": tool.input_schema}),
        );
        body["tools"] = tools.collect();
    }
    body
}

/// The role and the blocks of a message. Empty texts are refused, so there are none.
fn blocks(message: &Message, continuation: Option<&Continuation>, names: &ToolNames) -> (&'static str, Vec<Value>) {
    let text_block = |text: &str| (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}));
    match message {
        // There is no role for what is neither the user's nor the model's, but for the instructions.
        Message::Note { text } => ("user", text_block(&format!("<system-note>{text}</system-note>")).into_iter().collect()),
        Message::User { content } => ("user", text_block(&text_of(content)).into_iter().collect()),
        Message::Assistant { text, tool_calls } => {
            let calls = tool_calls.iter().map(|call| {
                let input = json::object(&call.arguments_raw).unwrap_or_else(|| json!({}));
                json!({"type": "tool_use", "id": call.call_id, "name": names.theirs(&call.name), "input": input})
            });
            ("assistant", sealed::in_place(continuation, &THINKING, text_block(text), calls))
        }
        Message::ToolResult { call_id, text } => {
            ("user", vec![json!({"type": "tool_result", "tool_use_id": call_id, "content": text})])
        }
    }
}
