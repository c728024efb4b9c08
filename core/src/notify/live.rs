//! Deltas on their way out: those of one message are joined while they wait, and split to fit a payload.

use serde::Serialize;
use uuid::Uuid;

use crate::closed_set::closed_set;
use crate::content;

/// A piece of what a model says or thinks, as the worker sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    pub session_id: Uuid,
    pub run_id: Uuid,
    pub step: u32,
    pub attempt: u32,
    pub message_index: u32,
    pub kind: DeltaKind,
    /// Of the text before, in UTF-16 code units: `text.slice(0, offset) + delta` is right in a browser, and shows a gap.
    pub offset: usize,
    pub text: String,
}

closed_set! {
    DeltaKind {
        Message = "message.delta",
        Reasoning = "reasoning.delta",
    }
}

impl Delta {
    fn continues(&self, next: &Self) -> bool {
        let place = |delta: &Self| (delta.run_id, delta.step, delta.attempt, delta.message_index, delta.kind);
        place(self) == place(next) && self.offset + self.text.encode_utf16().count() == next.offset
    }
}

/// Bytes that wait for one flush: a thousand readers' worth of text, and no more than the database should carry for what will be
/// stored as a whole anyway. What comes beyond it is dropped, and its readers see a gap.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// What waits for the next flush, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct LiveBuffer {
    waiting: Vec<Delta>,
    bytes: usize,
}

impl LiveBuffer {
    pub(super) fn add(&mut self, delta: Delta) {
        if self.bytes + delta.text.len() > WAITING_BYTES_MAX {
            return;
        }
        self.bytes += delta.text.len();
        // The last piece of this run: deltas of one message stay in order, those of other runs do not matter to it.
        match self.waiting.iter_mut().rev().find(|waiting| waiting.run_id == delta.run_id) {
            Some(last) if last.continues(&delta) => last.text.push_str(&delta.text),
            _ => self.waiting.push(delta),
        }
    }

    /// Payloads `session id:kind:frame`, each below the limit, split at character boundaries.
    pub(super) fn drain(&mut self, payload_bytes_max: usize) -> Vec<String> {
        let mut payloads = Vec::with_capacity(self.waiting.len());
        self.bytes = 0;
        for mut delta in self.waiting.drain(..) {
            let text = std::mem::take(&mut delta.text);
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let text_bytes_max = payload_bytes_max.saturating_sub(delta.payload("").len());
                let (piece, _) = content::fit(rest, text_bytes_max);
                if piece.is_empty() {
                    break; // cannot be: the head is a fraction of a payload
                }
                payloads.push(delta.payload(piece));
                delta.offset += piece.encode_utf16().count();
                rest = &rest[piece.len()..];
            }
        }
        payloads
    }
}

impl Delta {
    fn payload(&self, text: &str) -> String {
        let wire = Wire {
            run_id: self.run_id,
            step: self.step,
            attempt: self.attempt,
            message_index: self.message_index,
            offset: self.offset,
            text,
        };
        let frame = serde_json::to_string(&wire).expect("strings and numbers always serialize");
        format!("{}:{}:{frame}", self.session_id, self.kind)
    }
}

#[derive(Serialize)]
struct Wire<'a> {
    run_id: Uuid,
    step: u32,
    attempt: u32,
    message_index: u32,
    offset: usize,
    text: &'a str,
}

#[cfg(test)]
mod tests;
