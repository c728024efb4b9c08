//! The built-in model: plays the turns of its agent's file, with every fault that one can name. The same request gives the
//! same stream, so a run goes on after a restart as if nothing had happened.

use std::time::Duration;

use baton_core::agents::{Fault, ScriptCall, ScriptTurn, Template};
use baton_core::content::text_of;
use baton_core::events::{Stop, TokenUsage};
use baton_core::execution::Message;
use regex::Captures;
use serde_json::Value;

use crate::models::{Completion, ModelError, ModelEvent, ModelProvider, ModelRequest, ModelStream};

/// Characters of a delta where the file does not say.
const CHUNK_CHARS: usize = 16;

#[derive(Debug)]
pub(super) struct Scripted;

impl ModelProvider for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn answer(&self, request: ModelRequest) -> ModelStream {
        let (turn, events) = match play(&request) {
            Ok(played) => played,
            Err(unwritten) => {
                // The failure of the run says what the rules let it say: whoever writes the file needs to know more.
                tracing::warn!("{unwritten}");
                return Box::pin(futures::stream::iter([ModelEvent::Failed(ModelError::Permanent.into())]));
            }
        };
        Box::pin(async_stream::stream! {
            wait(turn.delay_ms).await;
            for (index, event) in events.into_iter().enumerate() {
                if index > 0 && matches!(event, ModelEvent::TextDelta(_)) {
                    wait(turn.chunk_delay_ms).await;
                }
                yield event;
            }
        })
    }
}

async fn wait(milliseconds: Option<u64>) {
    if let Some(milliseconds) = milliseconds {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}

/// The turn that the run has come to, and its stream; or what its file does not say.
fn play(request: &ModelRequest) -> Result<(ScriptTurn, Vec<ModelEvent>), String> {
    let agent = &request.agent;
    let input = text_of(&request.input);
    let played = agent.script.iter().find_map(|script| Some((script, script.r#match.captures(&input)?)));
    let (script, captures) = played.ok_or_else(|| format!("no [[script]] of agent `{}` matches", agent.id))?;
    let turn = usize::try_from(request.turn).ok().and_then(|turn| script.turn.get(turn));
    let turn = turn
        .ok_or_else(|| format!("the [[script]] `{}` of agent `{}` has no further [[script.turn]]", script.r#match, agent.id))?;
    let values = Values { captures, input: &input, messages: &request.messages };
    let spoiled = turn.fault.filter(|_| turn.fault_times.is_none_or(|times| request.attempt <= times));
    Ok((turn.clone(), events(turn, spoiled, request.step, &values)))
}

fn events(turn: &ScriptTurn, fault: Option<Fault>, step: u32, values: &Values<'_>) -> Vec<ModelEvent> {
    let is_failed = !turn.text_if_failed.is_empty() && values.last_result().is_some_and(|result| is_failure(&result));
    let text = values.render(if is_failed { &turn.text_if_failed } else { &turn.text });
    let chunk = turn.chunk.unwrap_or(CHUNK_CHARS);
    match fault {
        Some(Fault::Transient | Fault::Timeout) => return vec![ModelEvent::Failed(ModelError::Transient.into())],
        Some(Fault::Permanent) => return vec![ModelEvent::Failed(ModelError::Permanent.into())],
        Some(Fault::Malformed) => return vec![ModelEvent::Failed(ModelError::Protocol.into())],
        Some(Fault::Empty) => return vec![completed(Stop::EndTurn, TokenUsage::default())],
        Some(Fault::Cut) => {
            let half: String = text.chars().take(text.chars().count().div_ceil(2)).collect();
            let mut events = chunks(&half, chunk, ModelEvent::TextDelta);
            events.push(ModelEvent::Failed(ModelError::Transient.into()));
            return events;
        }
        None => {}
    }
    let mut events = chunks(&values.render(&turn.reasoning), chunk, ModelEvent::ReasoningDelta);
    events.extend(chunks(&text, chunk, ModelEvent::TextDelta));
    for (index, call) in (0..).zip(&turn.tool_calls) {
        events.push(ModelEvent::ToolCallDelta {
            index,
            call_id: format!("call_{step}_{index}"),
            name: call.name.clone(),
            arguments: arguments(call, values),
        });
    }
    let stop = turn.stop.unwrap_or(if turn.tool_calls.is_empty() { Stop::EndTurn } else { Stop::ToolUse });
    events.push(completed(stop, turn.usage.unwrap_or_else(|| estimate(values.messages, &text))));
    events
}

fn completed(stop: Stop, usage: TokenUsage) -> ModelEvent {
    ModelEvent::Completed(Completion { stop, usage: Some(usage), continuation: None, request_id: None })
}

fn chunks(text: &str, characters: usize, event: fn(String) -> ModelEvent) -> Vec<ModelEvent> {
    let all: Vec<char> = text.chars().collect();
    all.chunks(characters).map(|chunk| event(chunk.iter().collect())).collect()
}

fn arguments(call: &ScriptCall, values: &Values<'_>) -> String {
    match &call.raw_arguments {
        Some(raw) => values.render(raw),
        None => values.render_json(&Value::Object(call.arguments.clone())).to_string(),
    }
}

/// Words, roughly: what a figure without a tokenizer can be.
fn estimate(messages: &[Message], text: &str) -> TokenUsage {
    let words = |text: &str| i64::try_from(text.split_whitespace().count()).unwrap_or(i64::MAX);
    let said = messages.iter().map(|message| match message {
        Message::Note { text } | Message::Assistant { text, .. } | Message::ToolResult { text, .. } => words(text),
        Message::User { content } => words(&text_of(content)),
    });
    TokenUsage { input_tokens: said.sum(), output_tokens: words(text), ..TokenUsage::default() }
}

/// What placeholders stand for.
struct Values<'a> {
    captures: Captures<'a>,
    input: &'a str,
    messages: &'a [Message],
}

impl Values<'_> {
    fn render(&self, text: &str) -> String {
        Template(text).render(|name| self.value(name))
    }

    fn render_json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.render(text)),
            Value::Array(items) => items.iter().map(|item| self.render_json(item)).collect(),
            Value::Object(members) => {
                Value::Object(members.iter().map(|(key, member)| (key.clone(), self.render_json(member))).collect())
            }
            other => other.clone(),
        }
    }

    fn value(&self, name: &str) -> Option<String> {
        match name.strip_prefix("result.") {
            Some(field) => self.last_result().map(|result| field_of(&result, field)),
            None if name == "input" => Some(self.input.to_owned()),
            None if name == "answer" => self.last_answer(),
            None => self.captures.name(name).map(|capture| capture.as_str().to_owned()),
        }
    }

    fn last_result(&self) -> Option<Value> {
        self.messages.iter().rev().find_map(|message| match message {
            Message::ToolResult { text, .. } => serde_json::from_str(text).ok(),
            _ => None,
        })
    }

    /// What the user said to the last question.
    fn last_answer(&self) -> Option<String> {
        self.messages.iter().rev().find_map(|message| match message {
            Message::ToolResult { text, .. } => {
                let result: Value = serde_json::from_str(text).ok()?;
                result.get("answer")?.as_str().map(str::to_owned)
            }
            _ => None,
        })
    }
}

/// Whether a result is one of the six-field failures.
fn is_failure(result: &Value) -> bool {
    result.get("reason_code").is_some() && result.get("remediation").is_some()
}

/// A field of the last result; of a failed call, whose result has none, what went wrong.
fn field_of(result: &Value, field: &str) -> String {
    match result.get(field).or_else(|| result.get("message")) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
