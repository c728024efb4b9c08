//! From a stream of pieces to a turn.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::content::fit;
use baton_core::events::{Stop, TokenUsage, ToolCall};

use crate::models::{Completion, Continuation, Failure, ModelError, ModelEvent};

/// Bytes of a turn's text as JSON. With the calls it fits the body of an event.
const TEXT_BYTES_MAX: usize = 112 * 1024;
/// Bytes of all calls of a turn as JSON.
const CALLS_BYTES_MAX: usize = 112 * 1024;
/// Stands behind arguments that were cut: what is left of them is not JSON, or it might be other arguments.
const CUT: char = '…';

/// What a model said in one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) text: String,
    pub(crate) tool_calls: Vec<ToolCall>,
    pub(crate) stop: Stop,
    /// None: the provider did not say.
    pub(crate) usage: Option<TokenUsage>,
    pub(crate) continuation: Option<Continuation>,
    pub(crate) request_id: Option<String>,
    /// Something was cut to fit an event's body.
    pub(crate) truncated: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Assembler {
    text: String,
    calls: BTreeMap<u32, ToolCall>,
    /// More came than is kept: of the text, or of the calls at these indexes.
    is_text_full: bool,
    full_calls: BTreeSet<u32>,
}

impl Assembler {
    /// Takes a piece. Some: the stream is over.
    pub(crate) fn take(&mut self, event: ModelEvent) -> Option<Result<Turn, Failure>> {
        match event {
            ModelEvent::ReasoningDelta(_) => None,
            ModelEvent::TextDelta(text) => {
                self.is_text_full = self.is_text_full || !push_within(&mut self.text, &text, TEXT_BYTES_MAX);
                None
            }
            ModelEvent::ToolCallDelta { index, call_id, name, arguments } => {
                let call =
                    self.calls.entry(index).or_insert_with(|| ToolCall { arguments_raw: String::new(), call_id, index, name });
                let is_full = self.full_calls.contains(&index);
                if !is_full && !push_within(&mut call.arguments_raw, &arguments, CALLS_BYTES_MAX) {
                    self.full_calls.insert(index);
                }
                None
            }
            ModelEvent::Completed(completion) => Some(std::mem::take(self).finish(completion)),
            ModelEvent::Failed(failure) => Some(Err(failure)),
        }
    }

    fn finish(self, completion: Completion) -> Result<Turn, Failure> {
        let failed = |error: ModelError| Failure { request_id: completion.request_id.clone(), ..error.into() };
        if self.text.trim().is_empty() && self.calls.is_empty() {
            // A filter says the same the next time.
            let is_filtered = completion.stop == Stop::ContentFilter;
            return Err(failed(if is_filtered { ModelError::Permanent } else { ModelError::Empty }));
        }
        let (text, cut) = fit(&self.text, TEXT_BYTES_MAX);
        let mut truncated = cut || self.is_text_full;
        let mut tool_calls: Vec<ToolCall> = self.calls.into_values().collect();
        if has_duplicate_ids(&tool_calls) {
            return Err(failed(ModelError::Protocol)); // a result could not be told apart from another's
        }
        // Whatever their names and identifiers leave: 128 of the longest take two thirds.
        let mut room = tool_calls.iter().fold(CALLS_BYTES_MAX, |room, call| room.saturating_sub(bytes_without_arguments(call)));
        for call in &mut tool_calls {
            let (arguments, cut) = fit(&call.arguments_raw, room);
            room = room.saturating_sub(serde_json::to_string(arguments).map_or(room, |json| json.len()));
            let is_cut = cut || self.full_calls.contains(&call.index);
            truncated |= is_cut;
            call.arguments_raw = arguments.chars().chain(is_cut.then_some(CUT)).collect();
        }
        let Completion { stop, usage, continuation, request_id } = completion;
        Ok(Turn { text: text.to_owned(), tool_calls, stop, usage, continuation, request_id, truncated })
    }
}

/// Takes no more than would be kept: a model that never stops must not fill the memory. False: something was left out.
fn push_within(text: &mut String, more: &str, bytes_max: usize) -> bool {
    let end = more.floor_char_boundary(bytes_max.saturating_sub(text.len()));
    text.push_str(&more[..end]);
    end == more.len()
}

fn bytes_without_arguments(call: &ToolCall) -> usize {
    let named = ToolCall { arguments_raw: String::new(), ..call.clone() };
    // A comma behind it, and the mark of what was cut.
    serde_json::to_string(&named).map_or(0, |json| json.len() + 1 + CUT.len_utf8())
}

fn has_duplicate_ids(calls: &[ToolCall]) -> bool {
    calls.iter().enumerate().any(|(at, call)| calls[..at].iter().any(|other| other.call_id == call.call_id))
}
