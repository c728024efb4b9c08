//! `/responses` of OpenAI. Nothing is kept there: every request holds the whole conversation, and the reasoning comes back encrypted.

mod reader;

use baton_core::content::text_of;
use baton_core::execution::Message;
use serde_json::{Value, json};

use crate::models::tool_names::ToolNames;
use crate::models::{Continuation, ModelRequest, json, sealed};

pub(super) use reader::ResponsesReader;

pub(super) fn body(request: &ModelRequest, names: &ToolNames) -> Value {
    let input = request.messages().flat_map(|(message, continuation)| items(message, continuation, names));
    let mut body = json!({
        "include": ["reasoning.encrypted_content"],
        "input": input.collect::<Vec<_>>(),
        "max_output_tokens": request.max_output_tokens,
        "store": false,
        "stream": true,
    });
    if !request.agent.instructions.is_empty() {
        body["instructions"] = request.agent.instructions.as_str().into();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function", "name": names.theirs(tool.name), "description": tool.description,
                "parameters": tool.input_schema, "strict": false,
            })
        });
        body["tools"] = tools.collect();
    }
    body
}

fn items(message: &Message, continuation: Option<&Continuation>, names: &ToolNames) -> Vec<Value> {
    match message {
        Message::Note { text } => vec![json!({"role": "developer", "content": text})],
        Message::User { content } => vec![json!({"role": "user", "content": text_of(content)})],
        Message::Assistant { text, tool_calls } => {
            let text = (!text.is_empty()).then(|| json!({"role": "assistant", "content": text}));
            let calls = tool_calls.iter().map(|call| {
                let arguments = if json::object(&call.arguments_raw).is_some() { &call.arguments_raw } else { "{}" };
                json!({
                    "type": "function_call", "call_id": call.call_id, "name": names.theirs(&call.name), "arguments": arguments,
                })
            });
            sealed::in_place(continuation, &["reasoning"], text, calls)
        }
        Message::ToolResult { call_id, text } => {
            vec![json!({"type": "function_call_output", "call_id": call_id, "output": text})]
        }
    }
}
