//! What every normalized stream keeps to. Whoever reads one may rely on it; a provider that breaks it has not been understood.

use futures::{FutureExt, Stream, StreamExt};

use crate::models::{ModelError, ModelEvent, ModelStream};

/// Calls of one turn: no more than a run may make by default.
pub(super) const CALLS_MAX: usize = 128;

/// Bytes of a name or an identifier of a call: longer is not one.
const NAME_BYTES_MAX: usize = 128;

/// What may name a call or a tool, and be stored as that.
pub(super) fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control)
}

/// The stream as far as it is one, then a protocol error. Exactly one event ends it.
pub(super) fn checked(mut events: ModelStream) -> impl Stream<Item = ModelEvent> + Send {
    async_stream::stream! {
        let mut calls = Calls::default();
        while let Some(event) = events.next().await {
            let is_sound = match &event {
                ModelEvent::Completed(_) | ModelEvent::Failed(_) => {
                    // Nothing may follow the end. What would come later than at once, nobody waits for.
                    let is_last = !matches!(events.next().now_or_never(), Some(Some(_)));
                    yield if is_last { event } else { violation() };
                    return;
                }
                ModelEvent::ToolCallDelta { index, call_id, name, .. } => calls.continue_with(*index, call_id, name),
                ModelEvent::TextDelta(_) | ModelEvent::ReasoningDelta(_) => calls.interrupt(),
            };
            if !is_sound {
                break;
            }
            yield event;
        }
        yield violation();
    }
}

fn violation() -> ModelEvent {
    ModelEvent::Failed(ModelError::Protocol.into())
}

/// Calls come one after the other, from index 0 without gaps, each in one piece and under one identifier and name.
#[derive(Debug, Default)]
struct Calls {
    begun: u32,
    /// The one that may go on: identifier and name.
    open: Option<(String, String)>,
}

impl Calls {
    fn continue_with(&mut self, index: u32, call_id: &str, name: &str) -> bool {
        if index == self.begun {
            self.begun += 1;
            self.open = Some((call_id.to_owned(), name.to_owned()));
            return self.begun as usize <= CALLS_MAX && is_name(call_id) && is_name(name);
        }
        index + 1 == self.begun && self.open.as_ref().is_some_and(|(open_id, open_name)| open_id == call_id && open_name == name)
    }

    fn interrupt(&mut self) -> bool {
        self.open = None;
        true
    }
}

#[cfg(test)]
mod tests;
