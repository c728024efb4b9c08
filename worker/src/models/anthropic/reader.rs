//! Events of a message: blocks one after the other, each begun, continued and ended by its index.

use std::collections::BTreeMap;

use baton_core::events::{Stop, TokenUsage};
use serde_json::Value;

use crate::models::anthropic::THINKING;
use crate::models::outgoing::Outgoing;
use crate::models::reading::{Progress, Reader};
use crate::models::sealed::Sealed;
use crate::models::tool_names::ToolNames;
use crate::models::{Completion, ModelError, failure, json};

pub(in crate::models) struct MessagesReader {
    names: ToolNames,
    /// By the server's index.
    blocks: BTreeMap<i64, Block>,
    stop_reason: Option<String>,
    /// What was said of usage, later over earlier.
    usage: Option<BTreeMap<&'static str, i64>>,
}

enum Block {
    /// Arguments may stand in the block's beginning, instead of pieces.
    Call {
        call: usize,
        input: String,
    },
    Thinking(Thinking),
    Text,
    /// What this build does not know.
    Other,
}

/// As it has to be handed back: the block as it began, and what was told of it in pieces.
struct Thinking {
    begun: String,
    thinking: String,
    signature: String,
}

const USAGE_FIELDS: [&str; 4] = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];

impl MessagesReader {
    pub(in crate::models) fn new(names: ToolNames) -> Self {
        Self { names, blocks: BTreeMap::new(), stop_reason: None, usage: None }
    }
}

impl Reader for MessagesReader {
    fn take(&mut self, message: &Value, out: &mut Outgoing) -> Result<Progress, ModelError> {
        if let Some(error) = failure::in_message(message) {
            return Err(error);
        }
        let index = message.get("index").and_then(Value::as_i64).unwrap_or(0);
        let part = |field: &str| message.get(field).unwrap_or(&Value::Null);
        match json::text(message, "type").unwrap_or_default() {
            "message_start" => self.take_usage(&part("message")["usage"]),
            "content_block_start" => self.begin(index, part("content_block"), out)?,
            "content_block_delta" => self.go_on(index, part("delta"), out)?,
            "content_block_stop" => self.end(index, out)?,
            "message_delta" => {
                self.take_usage(part("usage"));
                self.stop(part("delta"));
            }
            "message_stop" => return Ok(Progress::Over),
            "message" => {
                self.take_document(message, out)?;
                return Ok(Progress::Over);
            }
            _ => {}
        }
        Ok(Progress::More)
    }

    fn has_stopped(&self) -> bool {
        self.stop_reason.is_some()
    }

    fn finish(&mut self, out: &mut Outgoing) -> Result<Option<Completion>, ModelError> {
        let Some(reason) = &self.stop_reason else { return Ok(None) };
        let stop = match reason.as_str() {
            "max_tokens" | "model_context_window_exceeded" => Stop::MaxTokens,
            "refusal" => Stop::ContentFilter,
            _ if out.has_calls() => Stop::ToolUse,
            _ => Stop::EndTurn,
        };
        let open: Vec<i64> = self.blocks.keys().copied().collect();
        open.into_iter().try_for_each(|index| self.end(index, out))?;
        let mut sealed = Sealed::default();
        for block in self.blocks.values() {
            match block {
                Block::Call { .. } => sealed.push_call()?,
                Block::Text => sealed.push_text()?,
                Block::Thinking(thinking) => thinking.to_hand_back().map_or(Ok(()), |block| sealed.push(&block))?,
                Block::Other => {}
            }
        }
        let usage = self.usage.as_ref().and_then(token_usage);
        Ok(Some(Completion { stop, usage, continuation: sealed.take(), request_id: None }))
    }
}

impl MessagesReader {
    fn begin(&mut self, index: i64, block: &Value, out: &mut Outgoing) -> Result<(), ModelError> {
        let begun = match json::text(block, "type").unwrap_or_default() {
            "tool_use" => {
                let call = out.begin_call()?;
                let name = json::text(block, "name").map(|name| self.names.ours(name));
                out.identify(call, json::text(block, "id"), name.as_deref())?;
                Block::Call { call, input: json::arguments(block.get("input")) }
            }
            kind if THINKING.contains(&kind) => {
                out.reasoning(json::text(block, "thinking").unwrap_or_default());
                Block::Thinking(Thinking { begun: block.to_string(), thinking: String::new(), signature: String::new() })
            }
            "text" => {
                out.text(json::text(block, "text").unwrap_or_default());
                Block::Text
            }
            _ => Block::Other,
        };
        // Two blocks at one index cannot be told apart.
        if self.blocks.insert(index, begun).is_some() { Err(ModelError::Protocol) } else { Ok(()) }
    }

    fn go_on(&mut self, index: i64, delta: &Value, out: &mut Outgoing) -> Result<(), ModelError> {
        let said = |field| json::text(delta, field).unwrap_or_default();
        match (json::text(delta, "type").unwrap_or_default(), self.blocks.get_mut(&index)) {
            ("text_delta", _) => out.text(said("text")),
            ("input_json_delta", Some(Block::Call { call, .. })) => out.arguments(*call, said("partial_json"))?,
            ("input_json_delta", _) => return Err(ModelError::Protocol), // arguments of nothing
            ("thinking_delta", block) => {
                out.reasoning(said("thinking"));
                if let Some(Block::Thinking(thinking)) = block {
                    thinking.thinking.push_str(said("thinking"));
                }
            }
            ("signature_delta", Some(Block::Thinking(thinking))) => thinking.signature.push_str(said("signature")),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, index: i64, out: &mut Outgoing) -> Result<(), ModelError> {
        let Some(Block::Call { call, input }) = self.blocks.get(&index) else { return Ok(()) };
        if !out.has_arguments(*call) {
            out.arguments(*call, input)?;
        }
        out.end_call(*call);
        Ok(())
    }

    fn stop(&mut self, delta: &Value) {
        if self.stop_reason.is_none() {
            self.stop_reason = json::text(delta, "stop_reason").map(str::to_owned);
        }
    }

    fn take_usage(&mut self, usage: &Value) {
        for field in USAGE_FIELDS {
            if let Some(tokens) = json::tokens(usage, &format!("/{field}")) {
                self.usage.get_or_insert_default().insert(field, tokens);
            }
        }
    }

    /// An answer that was not streamed.
    fn take_document(&mut self, message: &Value, out: &mut Outgoing) -> Result<(), ModelError> {
        self.take_usage(&message["usage"]);
        self.stop(message);
        (0..).zip(json::list(message, "content")).try_for_each(|(index, block)| self.begin(index, block, out))
    }
}

impl Thinking {
    /// Thinking without a signature is nothing that the provider would take.
    fn to_hand_back(&self) -> Option<Value> {
        let mut block: Value = serde_json::from_str(&self.begun).ok()?;
        for (field, pieces) in [("thinking", &self.thinking), ("signature", &self.signature)] {
            if !pieces.is_empty() {
                block[field] = format!("{}{pieces}", json::text(&block, field).unwrap_or_default()).into();
            }
        }
        (json::text(&block, "signature").is_some() || json::text(&block, "data").is_some()).then_some(block)
    }
}

/// What was read from the cache and what was written into it stand beside the input here; with us they are parts of it.
fn token_usage(usage: &BTreeMap<&'static str, i64>) -> Option<TokenUsage> {
    let part = |field| usage.get(field).copied().unwrap_or(0);
    let (written, read) = (part("cache_creation_input_tokens"), part("cache_read_input_tokens"));
    Some(TokenUsage {
        input_tokens: usage.get("input_tokens")? + written + read,
        cached_input_tokens: read,
        cache_write_input_tokens: written,
        output_tokens: *usage.get("output_tokens")?,
        reasoning_tokens: 0, // part of the output, and not told
    })
}
