//! What a provider has said, on its way out: in order, each call in one piece.
//!
//! A server may alternate between calls, or say a call's name or identifier late. The first item that is not over goes out as it
//! comes; what stands behind it waits.

use std::collections::VecDeque;

use serde::de::IgnoredAny;

use crate::models::checked::{CALLS_MAX, is_name};
use crate::models::{ModelError, ModelEvent};

/// Bytes of the arguments of one call that are looked at: more than a turn keeps, so that whoever keeps them sees that they are too long.
const ARGUMENTS_BYTES_MAX: usize = 128 * 1024;

/// What may wait behind a call that is not over: bytes, and pieces of text and reasoning.
const WAITING_BYTES_MAX: usize = 1024 * 1024;
const WAITING_ITEMS_MAX: usize = 1_024;

#[derive(Debug)]
pub(super) struct Outgoing {
    step: u32,
    /// In the order of their beginnings. Only the first has been sent of.
    items: VecDeque<Item>,
    /// Bytes of text and reasoning among them.
    bytes: usize,
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
    /// How far their object has come.
    object: Object,
    /// Bytes of them that have gone out; None: nothing of the call has.
    sent: Option<usize>,
    /// Its provider said so, or it has gone out whole.
    is_over: bool,
}

impl Outgoing {
    /// For the turn of a step, which made-up identifiers are named after.
    pub(super) fn new(step: u32) -> Self {
        Self { step, items: VecDeque::new(), bytes: 0, calls: Vec::new() }
    }

    pub(super) fn text(&mut self, piece: &str) {
        self.bytes += piece.len();
        match self.items.back_mut() {
            Some(Item::Text(text)) => text.push_str(piece),
            _ if piece.is_empty() => {}
            _ => self.items.push_back(Item::Text(piece.to_owned())),
        }
    }

    pub(super) fn reasoning(&mut self, piece: &str) {
        self.bytes += piece.len();
        match self.items.back_mut() {
            Some(Item::Reasoning(text)) => text.push_str(piece),
            _ if piece.is_empty() => {}
            _ => self.items.push_back(Item::Reasoning(piece.to_owned())),
        }
    }

    /// A new call; the result is its index.
    pub(super) fn begin_call(&mut self) -> Result<usize, ModelError> {
        if self.calls.len() == CALLS_MAX {
            return Err(ModelError::Protocol);
        }
        self.calls.push(Call::default());
        self.items.push_back(Item::Call(self.calls.len() - 1));
        Ok(self.calls.len() - 1)
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
        self.calls[call].is_over || self.calls[call].object == Object::Whole
    }

    /// The first that is said counts: some servers repeat them.
    pub(super) fn identify(&mut self, call: usize, id: Option<&str>, name: Option<&str>) -> Result<(), ModelError> {
        if ![id, name].into_iter().flatten().all(is_name) {
            return Err(ModelError::Protocol);
        }
        let call = &mut self.calls[call];
        if let Some(id) = id.filter(|_| call.id.is_empty()) {
            call.id = id.to_owned();
        }
        if let Some(name) = name.filter(|_| call.name.is_empty()) {
            call.name = name.to_owned();
        }
        Ok(())
    }

    pub(super) fn arguments(&mut self, call: usize, piece: &str) -> Result<(), ModelError> {
        let call = &mut self.calls[call];
        if call.is_over {
            // Nothing can be added to what has been sent on as whole.
            return if piece.trim().is_empty() { Ok(()) } else { Err(ModelError::Protocol) };
        }
        if call.arguments.len() <= ARGUMENTS_BYTES_MAX {
            call.arguments.push_str(piece);
            call.object = call.object.after(piece, &call.arguments);
        }
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
                    self.bytes -= text.len();
                    events.extend(taken(text).map(ModelEvent::TextDelta));
                    true
                }
                Item::Reasoning(text) => {
                    self.bytes -= text.len();
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
        let is_too_much = self.bytes > WAITING_BYTES_MAX || self.items.len() > WAITING_ITEMS_MAX;
        if is_too_much { Err(ModelError::Protocol) } else { Ok(events) }
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
        let is_over = call.is_over || (has_next && call.object == Object::Whole);
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
}

fn taken(text: &mut String) -> Option<String> {
    (!text.is_empty()).then(|| std::mem::take(text))
}

/// How far an object has come that is told in pieces of text. Each byte is looked at once, and the whole once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    /// How many braces and brackets are open, and whether a string is, whose next character counts for nothing.
    Open { depth: u32, is_string: bool, is_escaped: bool },
    /// Its last brace has closed: what may follow, beside white space, is no part of it.
    Whole,
    /// It never will be one.
    None,
}

impl Default for Object {
    fn default() -> Self {
        Self::Open { depth: 0, is_string: false, is_escaped: false }
    }
}

impl Object {
    fn after(self, piece: &str, all: &str) -> Self {
        let object = self.scan(piece);
        let has_closed = object == Self::Whole && self != Self::Whole;
        if has_closed && serde_json::from_str::<IgnoredAny>(all).is_err() { Self::None } else { object }
    }

    fn scan(mut self, piece: &str) -> Self {
        for byte in piece.bytes() {
            self = match (self, byte) {
                (Self::None, _) => return Self::None,
                (Self::Whole, b' ' | b'\t' | b'\r' | b'\n') => Self::Whole,
                (Self::Whole, _) => return Self::None,
                (Self::Open { depth, is_string, is_escaped }, _) => Self::open(depth, is_string, is_escaped, byte),
            };
        }
        self
    }

    const fn open(depth: u32, is_string: bool, is_escaped: bool, byte: u8) -> Self {
        match byte {
            _ if is_escaped => Self::Open { depth, is_string, is_escaped: false },
            b'\\' if is_string => Self::Open { depth, is_string, is_escaped: true },
            b'"' => Self::Open { depth, is_string: !is_string, is_escaped },
            b'{' | b'[' if !is_string => Self::Open { depth: depth + 1, is_string, is_escaped },
            b'}' if !is_string && depth == 1 => Self::Whole,
            b'}' | b']' if !is_string && depth > 0 => Self::Open { depth: depth - 1, is_string, is_escaped },
            b'}' | b']' if !is_string => Self::None,
            _ => Self::Open { depth, is_string, is_escaped },
        }
    }
}
