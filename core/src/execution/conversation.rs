//! What a model is shown: the session's transcript, then the run's own turns.

use serde_json::{Value, json};

use crate::content::{ContentBlock, text_of};
use crate::events::{Event, ToolCall};

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

impl Message {
    fn bytes(&self) -> usize {
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

/// Messages in order; every call of a finished turn has a result.
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
                self.messages.push(Message::Assistant { text: response.text.clone(), tool_calls: response.tool_calls.clone() });
            }
            Event::ToolCallCompleted(call) => self.result(&call.call_id, call.result.to_string()),
            Event::ToolCallFailed(call) => self.result(&call.call_id, failure_text(&call.reason_code, &call.message)),
            Event::ToolCallDenied(call) => self.result(&call.call_id, failure_text(&call.reason_code, "The call was denied.")),
            Event::ToolCallUncertain(call) => {
                self.result(&call.call_id, failure_text("unknown", "Whether the call had its effect is unknown."));
            }
            Event::UserInputDelivered(input) => self.messages.push(Message::User { content: input.content.clone() }),
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

    fn result(&mut self, call_id: &str, text: String) {
        self.messages.push(Message::ToolResult { call_id: call_id.to_owned(), text });
    }

    /// A run that ended between a call and its result must not make the session unusable: providers refuse such a turn.
    fn close_calls(&mut self) {
        for call_id in self.open_calls() {
            self.result(&call_id, failure_text("cancelled", "The call was not executed."));
        }
    }

    fn open_calls(&self) -> Vec<String> {
        let Some(turn) = self.messages.iter().rposition(|message| matches!(message, Message::Assistant { .. })) else {
            return Vec::new();
        };
        let Message::Assistant { tool_calls, .. } = &self.messages[turn] else { return Vec::new() };
        let answered = |id: &str| {
            self.messages[turn..].iter().any(|message| matches!(message, Message::ToolResult { call_id, .. } if call_id == id))
        };
        tool_calls.iter().map(|call| call.call_id.clone()).filter(|id| !answered(id)).collect()
    }
}

fn failure_text(reason_code: &str, message: &str) -> String {
    let failure: Value = json!({"status": "error", "reason_code": reason_code, "message": message});
    failure.to_string()
}
