//! From a stream of pieces to a turn.

use std::collections::BTreeMap;

use baton_core::content::fit;
use baton_core::events::{Stop, TokenUsage, ToolCall};

use crate::models::{ModelError, ModelEvent};

/// Bytes of a turn's text as JSON. With the calls it fits the body of an event.
const TEXT_BYTES_MAX: usize = 112 * 1024;
/// Bytes of all arguments of a turn as JSON.
const ARGUMENTS_BYTES_MAX: usize = 112 * 1024;
/// Calls of one turn: no more than a run may make by default.
const CALLS_MAX: usize = 128;
/// Bytes of a name or an identifier of a call: longer is not one.
const NAME_BYTES_MAX: usize = 128;

/// What a model said in one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) text: String,
    pub(crate) tool_calls: Vec<ToolCall>,
    pub(crate) stop: Stop,
    pub(crate) usage: TokenUsage,
    /// Something was cut to fit an event's body.
    pub(crate) truncated: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Assembler {
    text: String,
    calls: BTreeMap<u32, ToolCall>,
}

impl Assembler {
    /// Takes a piece. Some: the stream is over.
    pub(crate) fn take(&mut self, event: ModelEvent) -> Option<Result<Turn, ModelError>> {
        match event {
            ModelEvent::ReasoningDelta(_) => None,
            ModelEvent::TextDelta(text) => {
                self.text.push_str(&text);
                None
            }
            ModelEvent::ToolCallDelta { index, call_id, name, arguments } => {
                if call_id.len() > NAME_BYTES_MAX || name.len() > NAME_BYTES_MAX || self.calls.len() > CALLS_MAX {
                    return Some(Err(ModelError::Protocol));
                }
                let call =
                    self.calls.entry(index).or_insert_with(|| ToolCall { arguments_raw: String::new(), call_id, index, name });
                call.arguments_raw.push_str(&arguments);
                None
            }
            ModelEvent::Completed { stop, usage } => Some(std::mem::take(self).finish(stop, usage)),
            ModelEvent::Failed(error) => Some(Err(error)),
        }
    }

    fn finish(self, stop: Stop, usage: TokenUsage) -> Result<Turn, ModelError> {
        if self.text.is_empty() && self.calls.is_empty() {
            return Err(ModelError::Empty);
        }
        let (text, mut truncated) = fit(&self.text, TEXT_BYTES_MAX);
        let mut tool_calls: Vec<ToolCall> = self.calls.into_values().collect();
        if has_duplicate_ids(&tool_calls) {
            return Err(ModelError::Protocol); // a result could not be told apart from another's
        }
        let mut room = ARGUMENTS_BYTES_MAX;
        for call in &mut tool_calls {
            let (arguments, cut) = fit(&call.arguments_raw, room);
            truncated |= cut;
            call.arguments_raw = arguments.to_owned();
            room -= serde_json::to_string(&call.arguments_raw).map_or(room, |json| json.len().min(room));
        }
        Ok(Turn { text: text.to_owned(), tool_calls, stop, usage, truncated })
    }
}

fn has_duplicate_ids(calls: &[ToolCall]) -> bool {
    calls.iter().enumerate().any(|(at, call)| calls[..at].iter().any(|other| other.call_id == call.call_id))
}
