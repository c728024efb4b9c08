//! What a provider wants back with the next request: opaque parts of an answer, and where the rest of it stood among them.

use baton_core::models::CONTINUATION_BYTES_MAX;
use serde_json::Value;

use crate::models::{Continuation, ModelError};

/// In the place of the text, and of each call: those are in the conversation.
const TEXT: &str = "text";
const CALL: &str = "call";

/// The text of a JSON list from the beginning: as values the same may take fifty times the memory.
#[derive(Debug, Default)]
pub(super) struct Sealed {
    list: String,
    has_parts: bool,
}

impl Sealed {
    pub(super) fn push(&mut self, part: &Value) -> Result<(), ModelError> {
        self.has_parts = true;
        self.add(&part.to_string())
    }

    pub(super) fn push_text(&mut self) -> Result<(), ModelError> {
        self.add(&format!("{TEXT:?}"))
    }

    pub(super) fn push_call(&mut self) -> Result<(), ModelError> {
        self.add(&format!("{CALL:?}"))
    }

    fn add(&mut self, json: &str) -> Result<(), ModelError> {
        self.list.push(if self.list.is_empty() { '[' } else { ',' });
        self.list.push_str(json);
        if self.list.len() < CONTINUATION_BYTES_MAX { Ok(()) } else { Err(ModelError::Protocol) }
    }

    /// None: nothing has to be handed back.
    pub(super) fn take(&mut self) -> Option<Continuation> {
        let list = std::mem::take(&mut self.list);
        std::mem::take(&mut self.has_parts).then(|| (list + "]").into_bytes().into())
    }
}

/// A turn as it is handed back: text and calls where they stood among the sealed parts, of which only these types are the provider's own.
/// Parts that lead to nothing are left out: they are refused.
pub(super) fn in_place(
    continuation: Option<&Continuation>,
    types: &[&str],
    text: Option<Value>,
    calls: impl Iterator<Item = Value>,
) -> Vec<Value> {
    let list: Vec<Value> = continuation.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
    let (mut text, mut calls) = (text, calls.fuse());
    let (mut turn, mut waiting) = (Vec::new(), Vec::new());
    for part in list {
        let said = match part.as_str() {
            Some(TEXT) => text.take(),
            Some(_) => calls.next(),
            None => {
                waiting.extend(Some(part).filter(|part| part["type"].as_str().is_some_and(|name| types.contains(&name))));
                None
            }
        };
        if let Some(said) = said {
            turn.append(&mut waiting);
            turn.push(said);
        }
    }
    let rest: Vec<Value> = text.into_iter().chain(calls).collect();
    if !rest.is_empty() {
        turn.append(&mut waiting);
        turn.extend(rest);
    }
    turn
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_turn_is_handed_back_in_its_order_and_to_whom_it_came_from() {
        let mut sealed = Sealed::default();
        let part = |name: &str, number: u32| json!({"type": name, "number": number});
        sealed.push(&part("reasoning", 1)).unwrap();
        sealed.push_call().unwrap();
        sealed.push(&part("reasoning", 2)).unwrap();
        sealed.push_text().unwrap();
        sealed.push_call().unwrap();
        sealed.push(&part("reasoning", 3)).unwrap();
        let kept = sealed.take();
        let back = |text: Option<&str>, calls: &[&str], types: &[&str]| {
            json!(in_place(kept.as_ref(), types, text.map(Value::from), calls.iter().copied().map(Value::from)))
        };
        let (one, two, three) = (part("reasoning", 1), part("reasoning", 2), part("reasoning", 3));
        assert_eq!(back(Some("text"), &["a", "b"], &["reasoning"]), json!([one, "a", two, "text", "b"]));
        assert_eq!(back(None, &["a", "b", "c"], &["reasoning"]), json!([one, "a", two, "b", three, "c"]));
        assert_eq!(back(Some("text"), &["a", "b"], &["thinking"]), json!(["a", "text", "b"]), "another provider's");
        assert_eq!(back(None, &[], &["reasoning"]), json!([]));
        assert_eq!(sealed.take(), None);
        let older = Some(json!([one]).to_string().into_bytes().into());
        assert_eq!(json!(in_place(older.as_ref(), &["reasoning"], None, ["a".into()].into_iter())), json!([one, "a"]));
    }
}
