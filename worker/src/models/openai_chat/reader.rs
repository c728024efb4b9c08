//! Chunks of a chat completion. Servers agree on little more than their outline.

use std::collections::HashMap;

use baton_core::events::{Stop, TokenUsage};
use serde_json::Value;

use crate::models::outgoing::Outgoing;
use crate::models::reading::{Progress, Reader};
use crate::models::think::{Part, Thinking};
use crate::models::tool_names::ToolNames;
use crate::models::{Completion, ModelError, failure, json};

pub(in crate::models) struct ChatReader {
    names: ToolNames,
    thinking: Thinking,
    /// The call that began last at an index of the server's.
    calls: HashMap<i64, usize>,
    finish_reason: Option<String>,
    has_refused: bool,
    usage: Option<TokenUsage>,
    /// Whether text that `[DONE]` ends is whole, though nothing said why the model stopped.
    done_is_end: bool,
}

impl ChatReader {
    pub(in crate::models) fn new(names: ToolNames, done_is_end: bool) -> Self {
        let (thinking, calls) = (Thinking::default(), HashMap::new());
        Self { names, thinking, calls, finish_reason: None, has_refused: false, usage: None, done_is_end }
    }
}

impl Reader for ChatReader {
    fn take(&mut self, message: &Value, out: &mut Outgoing) -> Result<Progress, ModelError> {
        if let Some(error) = failure::in_message(message) {
            return Err(error);
        }
        if let Some(usage) = message.get("usage").filter(|usage| usage.is_object()) {
            self.usage = token_usage(usage).or(self.usage);
        }
        // We ask for one choice; others have another index.
        let is_ours = |choice: &&Value| choice.get("index").and_then(Value::as_i64).unwrap_or(0) == 0;
        for choice in json::list(message, "choices").iter().filter(is_ours) {
            // A server that does not stream has a message where others have a delta.
            if let Some(said) = ["delta", "message"].iter().find_map(|field| choice.get(field)) {
                self.take_delta(said, out)?;
            }
            if self.finish_reason.is_none() {
                self.finish_reason = json::text(choice, "finish_reason").map(str::to_owned);
            }
        }
        Ok(Progress::More) // the usage may come after the end of the choice
    }

    fn take_done(&mut self, out: &Outgoing) {
        if self.done_is_end && !out.has_calls() {
            self.finish_reason.get_or_insert_with(|| "stop".into());
        }
    }

    fn has_stopped(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn finish(&mut self, out: &mut Outgoing) -> Result<Option<Completion>, ModelError> {
        let Some(reason) = &self.finish_reason else { return Ok(None) };
        let natural = if out.has_calls() { Stop::ToolUse } else { Stop::EndTurn };
        let stop = match reason.to_ascii_lowercase().as_str() {
            _ if self.has_refused => Stop::ContentFilter,
            "length" | "max_tokens" | "max_length" => Stop::MaxTokens,
            "content_filter" | "safety" | "refusal" | "recitation" => Stop::ContentFilter,
            "error" => return Err(ModelError::Transient),
            _ => natural, // some say `stop` where they mean `tool_calls`, and the other way round
        };
        if let Some(part) = self.thinking.finish() {
            say(part, out);
        }
        Ok(Some(Completion { stop, usage: self.usage, continuation: None, request_id: None }))
    }
}

impl ChatReader {
    fn take_delta(&mut self, delta: &Value, out: &mut Outgoing) -> Result<(), ModelError> {
        if let Some(reasoning) = json::text(delta, "reasoning_content").or_else(|| json::text(delta, "reasoning")) {
            out.reasoning(reasoning);
        }
        let blocks = json::list(delta, "content").iter().filter_map(|block| json::text(block, "text"));
        for text in json::text(delta, "content").into_iter().chain(blocks) {
            self.thinking.take(text).into_iter().for_each(|part| say(part, out));
        }
        if let Some(refusal) = json::text(delta, "refusal") {
            self.has_refused = true;
            out.text(refusal);
        }
        json::list(delta, "tool_calls").iter().try_for_each(|piece| self.take_call(piece, out))
    }

    fn take_call(&mut self, piece: &Value, out: &mut Outgoing) -> Result<(), ModelError> {
        let function = piece.get("function").unwrap_or(piece);
        let (id, name) = (json::text(piece, "id"), json::text(function, "name").map(|name| self.names.ours(name)));
        let index = piece.get("index").and_then(Value::as_i64);
        let call = match self.call_of(id, index, name.is_some(), out) {
            Some(call) => call,
            None => out.begin_call()?,
        };
        if let Some(index) = index {
            self.calls.insert(index, call);
        }
        out.identify(call, id, name.as_deref())?;
        out.arguments(call, &json::arguments(function.get("arguments")))
    }

    /// The call that a piece goes on with; None: it begins one. A known identifier wins over the index, and an unknown one at a
    /// known index begins a call: servers number all calls 0. A piece without identifier belongs to the call at its index, and
    /// without a known index to the last one, unless it names a function and that call is whole.
    fn call_of(&self, id: Option<&str>, index: Option<i64>, is_named: bool, out: &Outgoing) -> Option<usize> {
        let at_index = index.and_then(|index| self.calls.get(&index).copied());
        match id {
            Some(id) => out.call_with_id(id).or_else(|| {
                let candidate = at_index.or_else(|| out.last_call().filter(|_| index.is_none() && !is_named))?;
                out.id(candidate).is_empty().then_some(candidate) // its identifier comes late
            }),
            None => {
                let candidate = at_index.or_else(|| out.last_call().filter(|_| index.is_none() || !is_named))?;
                let begins = is_named && !out.name(candidate).is_empty() && out.is_whole(candidate);
                (!begins).then_some(candidate)
            }
        }
    }
}

fn say(part: Part, out: &mut Outgoing) {
    match part {
        Part::Text(text) => out.text(&text),
        Part::Reasoning(text) => out.reasoning(&text),
    }
}

/// The prompt's tokens are all of the input, and the completion's all of the output; where a server leaves the reasoning out of
/// them, the total has it.
fn token_usage(usage: &Value) -> Option<TokenUsage> {
    let part = |pointer| json::tokens(usage, pointer).unwrap_or(0);
    let input_tokens = json::tokens(usage, "/prompt_tokens")?;
    let output_tokens = json::tokens(usage, "/completion_tokens")?.max(part("/total_tokens") - input_tokens);
    Some(TokenUsage {
        input_tokens,
        output_tokens,
        cached_input_tokens: part("/prompt_tokens_details/cached_tokens").max(part("/prompt_cache_hit_tokens")).min(input_tokens),
        cache_write_input_tokens: part("/prompt_tokens_details/cache_write_tokens").min(input_tokens),
        reasoning_tokens: part("/completion_tokens_details/reasoning_tokens").min(output_tokens),
    })
}
