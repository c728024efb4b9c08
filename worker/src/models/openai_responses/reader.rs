//! Events of a response: items by their index, each told in pieces and then again as a whole.

use std::collections::{HashMap, HashSet};

use baton_core::events::{Stop, TokenUsage};
use serde_json::Value;

use crate::models::outgoing::Outgoing;
use crate::models::reading::{Progress, Reader};
use crate::models::sealed::Sealed;
use crate::models::tool_names::ToolNames;
use crate::models::{Completion, ModelError, failure, json};

pub(in crate::models) struct ResponsesReader {
    names: ToolNames,
    /// By the server's index, as the next two.
    calls: HashMap<i64, usize>,
    /// Messages that pieces have come of.
    said: HashSet<i64>,
    /// Items that were told as a whole.
    done: HashSet<i64>,
    /// Reasoning that has to be handed back, in order.
    sealed: Sealed,
    has_refused: bool,
    ending: Option<(Stop, Option<TokenUsage>)>,
}

impl ResponsesReader {
    pub(in crate::models) fn new(names: ToolNames) -> Self {
        Self {
            names,
            calls: HashMap::new(),
            said: HashSet::new(),
            done: HashSet::new(),
            sealed: Sealed::default(),
            has_refused: false,
            ending: None,
        }
    }
}

impl Reader for ResponsesReader {
    fn take(&mut self, message: &Value, out: &mut Outgoing) -> Result<Progress, ModelError> {
        let index = message.get("output_index").and_then(Value::as_i64).unwrap_or(0);
        let part = |field: &str| message.get(field).unwrap_or(&Value::Null);
        let delta = json::text(message, "delta").unwrap_or_default();
        match json::text(message, "type").unwrap_or_default() {
            "response.output_item.added" => self.begin(index, part("item"), out)?,
            "response.output_item.done" => self.take_item(index, part("item"), out)?,
            "response.output_text.delta" => {
                self.said.insert(index);
                out.text(delta);
            }
            "response.refusal.delta" => {
                self.said.insert(index);
                self.has_refused = true;
                out.text(delta);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => out.reasoning(delta),
            "response.function_call_arguments.delta" => {
                let call = *self.calls.get(&index).ok_or(ModelError::Protocol)?; // arguments of nothing
                out.arguments(call, delta)?;
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                return self.end(part("response"), out);
            }
            "error" => return Err(failure::in_message(message).unwrap_or_else(|| failure::of_error(message))),
            "" if part("object") == "response" => return self.end(message, out),
            _ => {
                if let Some(error) = failure::in_message(message) {
                    return Err(error);
                }
            }
        }
        Ok(Progress::More)
    }

    fn has_stopped(&self) -> bool {
        self.ending.is_some()
    }

    fn finish(&mut self, _out: &mut Outgoing) -> Result<Option<Completion>, ModelError> {
        let Some((stop, usage)) = self.ending else { return Ok(None) };
        Ok(Some(Completion { stop, usage, continuation: self.sealed.take(), request_id: None }))
    }
}

impl ResponsesReader {
    fn begin(&mut self, index: i64, item: &Value, out: &mut Outgoing) -> Result<(), ModelError> {
        if item["type"] == "function_call" && !self.calls.contains_key(&index) {
            let call = out.begin_call()?;
            let name = json::text(item, "name").map(|name| self.names.ours(name));
            out.identify(call, json::text(item, "call_id"), name.as_deref())?;
            self.calls.insert(index, call);
        }
        Ok(())
    }

    /// An item as a whole: what its pieces have not told already.
    fn take_item(&mut self, index: i64, item: &Value, out: &mut Outgoing) -> Result<(), ModelError> {
        if !self.done.insert(index) {
            return Ok(());
        }
        match json::text(item, "type").unwrap_or_default() {
            "function_call" => {
                self.begin(index, item, out)?;
                let call = self.calls[&index];
                if !out.has_arguments(call) {
                    out.arguments(call, &json::arguments(item.get("arguments")))?;
                }
                out.end_call(call);
                self.sealed.push_call()?;
            }
            "message" => {
                self.sealed.push_text()?;
                for block in json::list(item, "content") {
                    let refusal = json::text(block, "refusal");
                    self.has_refused |= refusal.is_some();
                    if !self.said.contains(&index) {
                        out.text(json::text(block, "text").or(refusal).unwrap_or_default());
                    }
                }
            }
            // Without its encrypted content the server would look for it where nothing was stored.
            "reasoning" if json::text(item, "encrypted_content").is_some() => self.sealed.push(item)?,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, response: &Value, out: &mut Outgoing) -> Result<Progress, ModelError> {
        let status = json::text(response, "status").unwrap_or("completed");
        if matches!(status, "failed" | "cancelled") || !response["error"].is_null() {
            return Err(failure::in_message(response).unwrap_or(ModelError::Transient));
        }
        (0..).zip(json::list(response, "output")).try_for_each(|(index, item)| self.take_item(index, item, out))?;
        let stop = match (status, response.pointer("/incomplete_details/reason").and_then(Value::as_str)) {
            ("incomplete", Some("content_filter")) => Stop::ContentFilter,
            ("incomplete", _) => Stop::MaxTokens,
            _ if self.has_refused => Stop::ContentFilter,
            _ if out.has_calls() => Stop::ToolUse,
            _ => Stop::EndTurn,
        };
        self.ending = Some((stop, response.get("usage").and_then(token_usage)));
        Ok(Progress::Over)
    }
}

/// Both totals hold their parts here, as with us.
fn token_usage(usage: &Value) -> Option<TokenUsage> {
    let part = |pointer| json::tokens(usage, pointer).unwrap_or(0);
    let (input_tokens, output_tokens) = (json::tokens(usage, "/input_tokens")?, json::tokens(usage, "/output_tokens")?);
    Some(TokenUsage {
        input_tokens,
        output_tokens,
        cached_input_tokens: part("/input_tokens_details/cached_tokens").min(input_tokens),
        cache_write_input_tokens: 0,
        reasoning_tokens: part("/output_tokens_details/reasoning_tokens").min(output_tokens),
    })
}
