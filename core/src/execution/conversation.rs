//! What a model is shown: the session's transcript, then the run's own turns.

use serde_json::{Value, json};

use crate::content::{ContentBlock, text_of};
use crate::events::{Event, ToolCall};
use crate::tools::{ReasonCode, ToolFailure};

/// Estimated bytes of a token, everywhere that tokens are not counted by a provider.
pub(super) const BYTES_PER_TOKEN: usize = 3;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// From the system to the model, beside its instructions.
    Note {
        text: String,
    },
    User {
        content: Vec<ContentBlock>,
    },
    Assistant {
        text: String,
        tool_calls: Vec<ToolCall>,
    },
    /// `text` is what the model reads: JSON.
    ToolResult {
        call_id: String,
        text: String,
    },
}

/// Tokens of so many bytes, where no provider has counted them.
pub const fn estimated_tokens(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

impl Message {
    /// Of everything that a model reads.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Note { text } => text.len(),
            Self::User { content } => text_of(content).len(),
            Self::Assistant { text, tool_calls } => {
                text.len() + tool_calls.iter().map(|call| call.name.len() + call.arguments_raw.len()).sum::<usize>()
            }
            Self::ToolResult { text, .. } => text.len(),
        }
    }
}

/// Messages in order. Every call of a finished turn has exactly one result, directly after the turn and in the order of its
/// calls: providers refuse anything else, and a session that a provider refuses would be dead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation {
    messages: Vec<Message>,
}

impl Conversation {
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Takes what concerns a model out of an event; most concern none.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::UserMessageCreated(message) => {
                self.close_calls();
                self.messages.push(Message::User { content: message.content.clone() });
            }
            Event::ModelResponseCompleted(response) => {
                self.close_calls();
                self.messages.push(Message::Assistant { text: response.text.clone(), tool_calls: response.tool_calls.clone() });
            }
            Event::ToolCallCompleted(call) => self.result(&call.call_id, call.result.to_string()),
            Event::ToolCallFailed(call) => self.failure(&call.call_id, &call.reason_code),
            Event::ToolCallDenied(call) => self.failure(&call.call_id, &call.reason_code),
            Event::ToolCallUncertain(call) => self.failure(&call.call_id, ReasonCode::Unknown.as_str()),
            Event::UserInputDelivered(input) => self.answer(&input.content),
            Event::RunCompleted(_) | Event::RunFailed(_) | Event::RunCancelled(_) => self.close_calls(),
            _ => {}
        }
    }

    /// Drops the oldest messages until the estimate fits, and says so. What is left begins with what a user said: a log that
    /// was read back may begin in the middle of an exchange, and a result must not stand without its call.
    pub fn trim(&mut self, tokens_max: usize) {
        let mut bytes: usize = self.messages.iter().map(Message::bytes).sum();
        let mut first = 0;
        while bytes > tokens_max * BYTES_PER_TOKEN && first < self.messages.len() {
            bytes -= self.messages[first].bytes();
            first += 1;
        }
        let is_user = |message: &Message| matches!(message, Message::User { .. });
        let begin = self.messages[first..].iter().position(is_user).map_or(self.messages.len(), |at| first + at);
        if begin > 0 {
            self.messages.drain(..begin);
            self.messages.insert(0, Message::Note { text: "Earlier messages of this conversation were left out.".into() });
        }
    }

    /// A result goes to its place among those of its turn. One without a call, or for a call that has one, says nothing.
    fn result(&mut self, call_id: &str, text: String) {
        let Some((turn, tool_calls)) = self.last_turn() else { return };
        let place_of = |id: &str| tool_calls.iter().position(|call| call.call_id == id);
        let Some(place) = place_of(call_id) else { return };
        let results = self.messages[turn + 1..].iter().filter_map(|message| match message {
            Message::ToolResult { call_id, .. } => place_of(call_id),
            _ => None,
        });
        let (mut before, mut is_answered) = (0, false);
        for other in results {
            before += usize::from(other < place);
            is_answered |= other == place;
        }
        if !is_answered {
            self.messages.insert(turn + 1 + before, Message::ToolResult { call_id: call_id.to_owned(), text });
        }
    }

    fn failure(&mut self, call_id: &str, reason_code: &str) {
        let name = self.last_turn().and_then(|(_, calls)| calls.iter().find(|call| call.call_id == call_id));
        let action = name.map(|call| call.name.clone()).unwrap_or_default();
        // A reason of a later build reads as the plainest of ours.
        let reason = reason_code.parse().unwrap_or(ReasonCode::ToolExecutionError);
        let text = serde_json::to_string(&ToolFailure::new(&action, reason)).expect("strings and a boolean serialize");
        self.result(call_id, text);
    }

    /// What the user said to a question is the result of the call that asked: the first without one, since calls are made in
    /// order and one that asks is made alone.
    fn answer(&mut self, content: &[ContentBlock]) {
        if let Some(call_id) = self.open_calls().into_iter().next() {
            self.result(&call_id, answer_value(content).to_string());
        }
    }

    /// A run that ended between a call and its result must not make the session unusable.
    fn close_calls(&mut self) {
        for call_id in self.open_calls() {
            self.failure(&call_id, ReasonCode::Cancelled.as_str());
        }
    }

    fn open_calls(&self) -> Vec<String> {
        let Some((turn, tool_calls)) = self.last_turn() else { return Vec::new() };
        let answered = |id: &str| {
            self.messages[turn..].iter().any(|message| matches!(message, Message::ToolResult { call_id, .. } if call_id == id))
        };
        tool_calls.iter().map(|call| call.call_id.clone()).filter(|id| !answered(id)).collect()
    }

    fn last_turn(&self) -> Option<(usize, &[ToolCall])> {
        let turn = self.messages.iter().rposition(|message| matches!(message, Message::Assistant { .. }))?;
        let Message::Assistant { tool_calls, .. } = &self.messages[turn] else { return None };
        Some((turn, tool_calls))
    }
}

/// The result of a call that asked the user.
pub fn answer_value(content: &[ContentBlock]) -> Value {
    json!({"answer": text_of(content)})
}

#[cfg(test)]
mod tests;
