//! `/chat/completions` of OpenAI, and of everybody who speaks it: vLLM, llama.cpp, Ollama, LM Studio, OpenRouter.

mod reader;

use baton_core::content::text_of;
use baton_core::events::ToolCall;
use baton_core::execution::Message;
use serde_json::{Value, json};
use url::Url;

use crate::models::tool_names::ToolNames;
use crate::models::{ModelRequest, json};

pub(super) use reader::ChatReader;

/// OpenAI's own models refuse the old name of the output's limit, which is the only one that many others know.
pub(super) fn output_limit_key(url: &Url) -> &'static str {
    let host = url.host_str().unwrap_or_default();
    let is_openai = ["openai.com", "openai.azure.com"]
        .iter()
        .any(|domain| host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    if is_openai { "max_completion_tokens" } else { "max_tokens" }
}

pub(super) fn body(request: &ModelRequest, names: &ToolNames, output_limit_key: &str) -> Value {
    let instructions = Some(&request.agent.instructions).filter(|text| !text.is_empty());
    let instructions = instructions.map(|text| json!({"role": "system", "content": text}));
    let messages = request.messages().filter_map(|(said, _)| message(said, names));
    let mut body = json!({
        "messages": instructions.into_iter().chain(messages).collect::<Vec<_>>(),
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    body[output_limit_key] = request.max_output_tokens.into();
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": names.theirs(tool.name), "description": tool.description, "parameters": tool.input_schema,
            }})
        });
        body["tools"] = tools.collect();
    }
    body
}

/// None: a turn that said nothing, which servers refuse.
fn message(message: &Message, names: &ToolNames) -> Option<Value> {
    Some(match message {
        Message::Note { text } => json!({"role": "system", "content": text}),
        Message::User { content } => json!({"role": "user", "content": text_of(content)}),
        Message::Assistant { text, tool_calls } if tool_calls.is_empty() => {
            (!text.is_empty()).then(|| json!({"role": "assistant", "content": text}))?
        }
        Message::Assistant { text, tool_calls } => json!({
            "role": "assistant",
            "content": (!text.is_empty()).then_some(text),
            "tool_calls": tool_calls.iter().map(|call| tool_call(call, names)).collect::<Vec<_>>(),
        }),
        Message::ToolResult { call_id, text } => json!({"role": "tool", "tool_call_id": call_id, "content": text}),
    })
}

fn tool_call(call: &ToolCall, names: &ToolNames) -> Value {
    let arguments = if json::object(&call.arguments_raw).is_some() { &call.arguments_raw } else { "{}" };
    json!({
        "id": call.call_id, "type": "function",
        "function": {"name": names.theirs(&call.name), "arguments": arguments},
    })
}
