//! What a provider wants back with the next request: opaque parts of an answer, kept as the text of a JSON list.

use baton_core::models::CONTINUATION_BYTES_MAX;
use serde_json::Value;

use crate::models::{Continuation, ModelError};

/// As text from the beginning: as values the same may take fifty times the memory.
#[derive(Debug, Default)]
pub(super) struct Sealed(String);

impl Sealed {
    pub(super) fn push(&mut self, part: &Value) -> Result<(), ModelError> {
        self.0.push(if self.0.is_empty() { '[' } else { ',' });
        self.0.push_str(&part.to_string());
        if self.0.len() < CONTINUATION_BYTES_MAX { Ok(()) } else { Err(ModelError::Protocol) }
    }

    /// None: there is nothing.
    pub(super) fn take(&mut self) -> Option<Continuation> {
        if self.0.is_empty() {
            return None;
        }
        self.0.push(']');
        Some(std::mem::take(&mut self.0).into_bytes().into())
    }
}
