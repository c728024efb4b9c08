//! What a provider has said, on its way out: in order, each call in one piece.
//!
//! A server may alternate between calls, or say a call's name or identifier late. The first item that is not over goes out as it
//! comes; what stands behind it waits.

use std::collections::VecDeque;

use serde::de::IgnoredAny;

use crate::models::{ModelError, ModelEvent};

/// Bytes that wait, and of one call: many times what the assembler keeps of a turn.
const BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Outgoing {
    step: u32,
    /// In the order of their beginnings. Only the first has been sent of.
    items: VecDeque<Item>,
    /// Every call of the turn by its index, those that are gone included.
    calls: Vec<Call>,
}

#[derive(Debug)]
enum Item {
    Text(String),
    Reasoning(String),
    /// By its index.
    Call(usize),
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    /// As far as they are known.
    arguments: String,
    /// Bytes of them that have gone out; None: nothing of the call has.
    sent: Option<usize>,
    /// Its provider said so, or it has gone out whole.
    is_over: bool,
}

impl Outgoing {
    /// For the turn of a step, which made-up identifiers are named after.
    pub(super) fn new(step: u32) -> Self {
        Self { step, items: VecDeque::new(), calls: Vec::new() }
    }

    pub(super) fn text(&mut self, piece: &str) {
        match self.items.back_mut() {
            Some(Item::Text(text)) => text.push_str(piece),
            _ if piece.is_empty() => {}
            _ => self.items.push_back(Item::Text(piece.to_owned())),
        }
    }

    pub(super) fn reasoning(&mut self, piece: &str) {
        match self.items.back_mut() {
            Some(Item::Reasoning(text)) => text.push_str(piece),
            _ if piece.is_empty() => {}
            _ => self.items.push_back(Item::Reasoning(piece.to_owned())),
        }
    }

    /// A new call; the result is its index.
    pub(super) fn begin_call(&mut self) -> usize {
        self.calls.push(Call::default());
        self.items.push_back(Item::Call(self.calls.len() - 1));
        self.calls.len() - 1
    }

    /// The call that began last.
    pub(super) fn last_call(&self) -> Option<usize> {
        self.calls.len().checked_sub(1)
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn call_with_id(&self, id: &str) -> Option<usize> {
        self.calls.iter().position(|call| call.id == id)
    }

    pub(super) fn id(&self, call: usize) -> &str {
        &self.calls[call].id
    }

    pub(super) fn name(&self, call: usize) -> &str {
        &self.calls[call].name
    }

    /// Whether its arguments are whole, as far as one can see.
    pub(super) fn is_whole(&self, call: usize) -> bool {
        self.calls[call].is_over || is_whole(&self.calls[call].arguments)
    }

    /// The first that is said counts: some servers repeat them.
    pub(super) fn identify(&mut self, call: usize, id: Option<&str>, name: Option<&str>) {
        let call = &mut self.calls[call];
        if let Some(id) = id.filter(|_| call.id.is_empty()) {
            call.id = id.to_owned();
        }
        if let Some(name) = name.filter(|_| call.name.is_empty()) {
            call.name = name.to_owned();
        }
    }

    pub(super) fn arguments(&mut self, call: usize, piece: &str) -> Result<(), ModelError> {
        let call = &mut self.calls[call];
        if call.is_over {
            // Nothing can be added to what has been sent on as whole.
            return if piece.trim().is_empty() { Ok(()) } else { Err(ModelError::Protocol) };
        }
        call.arguments.push_str(piece);
        Ok(())
    }

    /// Whether the provider has said anything of its arguments.
    pub(super) fn has_arguments(&self, call: usize) -> bool {
        !self.calls[call].arguments.is_empty()
    }

    pub(super) fn end_call(&mut self, call: usize) {
        self.calls[call].is_over = true;
    }

    /// Whatever can go out now.
    pub(super) fn take_ready(&mut self) -> Result<Vec<ModelEvent>, ModelError> {
        let mut events = Vec::new();
        while let Some(item) = self.items.front_mut() {
            let is_over = match item {
                Item::Text(text) => {
                    events.extend(taken(text).map(ModelEvent::TextDelta));
                    true
                }
                Item::Reasoning(text) => {
                    events.extend(taken(text).map(ModelEvent::ReasoningDelta));
                    true
                }
                &mut Item::Call(index) => self.send_call(index, &mut events),
            };
            if !is_over || self.items.len() == 1 {
                break;
            }
            self.items.pop_front();
        }
        let waiting: usize = self.items.iter().map(|item| self.bytes(item)).sum();
        if waiting > BYTES_MAX { Err(ModelError::Protocol) } else { Ok(events) }
    }

    /// Everything that is left, at the end of the stream.
    pub(super) fn take_rest(&mut self) -> Result<Vec<ModelEvent>, ModelError> {
        self.calls.iter_mut().for_each(|call| call.is_over = true);
        let events = self.take_ready()?;
        // A call that nobody can make is none, and what it would have done is not known.
        if self.calls.iter().any(|call| call.sent.is_none()) { Err(ModelError::Protocol) } else { Ok(events) }
    }

    /// Sends what is new of a call. Whether the next item may follow: then it is over, or nothing could follow.
    fn send_call(&mut self, index: usize, events: &mut Vec<ModelEvent>) -> bool {
        let has_next = self.items.len() > 1;
        let call = &mut self.calls[index];
        let is_over = call.is_over || (has_next && is_whole(&call.arguments));
        if call.id.is_empty() && is_over {
            call.id = format!("call_{}_{index}", self.step);
        }
        if call.id.is_empty() || call.name.is_empty() {
            return false;
        }
        let piece = &call.arguments[call.sent.unwrap_or(0)..];
        if call.sent.is_none() || !piece.is_empty() {
            events.push(ModelEvent::ToolCallDelta {
                index: u32::try_from(index).unwrap_or(u32::MAX),
                call_id: call.id.clone(),
                name: call.name.clone(),
                arguments: piece.to_owned(),
            });
            call.sent = Some(call.arguments.len());
        }
        call.is_over = is_over;
        is_over
    }

    fn bytes(&self, item: &Item) -> usize {
        match item {
            Item::Text(text) | Item::Reasoning(text) => text.len(),
            Item::Call(index) => self.calls[*index].arguments.len(),
        }
    }
}

fn taken(text: &mut String) -> Option<String> {
    (!text.is_empty()).then(|| std::mem::take(text))
}

/// The text of an object is over where its last brace closes: nothing that may follow is part of it.
fn is_whole(arguments: &str) -> bool {
    arguments.trim_end().ends_with('}') && serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}
