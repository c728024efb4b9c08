//! What a torture worker writes next: a step of a run, and perhaps its end.

use baton_core::events::{
    Event, ModelRequestStarted, ModelResponseCompleted, ModelResponseFailed, RunEnded, RunFailed, RunRequeued, Stop, TokenUsage,
};
use baton_core::execution::{Ending, RunState};
use baton_core::runs::{Failure, FailureReason, RequeueCause};
use rand::Rng;
use rand::rngs::StdRng;
use rust_decimal::Decimal;

use super::marker::{Marker, Write};
use super::world::{Stage, World};

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) write: Write,
    pub(super) events: Vec<Event>,
    /// The fold with these events.
    pub(super) state: RunState,
    pub(super) ending: Option<Ending>,
}

impl Plan {
    /// Each write is a step of its own, so that steps count writes.
    pub(super) fn new(world: &World, rng: &mut StdRng, epoch: i32, state: &RunState, cancel_requested: bool) -> Self {
        let write = Write { epoch, number: state.step + 1, nonce: rng.random() };
        let ending = choose_ending(world, rng, cancel_requested, write.number);
        let steps = rng.random_range(1..4);
        let count = steps + usize::from(ending.is_some());
        let mut state = state.clone();
        let mut events: Vec<Event> = (0..steps).map(|index| event(rng, &Marker { write, index, count }, steps)).collect();
        for event in &events {
            state.apply(event).unwrap();
        }
        events.extend(ending.as_ref().map(|ending| end(ending, &state)));
        Self { write, events, state, ending }
    }
}

fn choose_ending(world: &World, rng: &mut StdRng, cancel_requested: bool, step: u32) -> Option<Ending> {
    let draining = world.stage() != Stage::Torture;
    let chance: f64 = rng.random();
    let completes = if draining { 0.5 } else { 0.06 };
    if cancel_requested && chance < 0.8 {
        Some(Ending::Cancelled)
    } else if chance < completes {
        Some(Ending::Completed)
    } else if chance < completes + 0.02 {
        let failure = Failure::new(FailureReason::InternalError, Some(step), world.clock().now());
        Some(Ending::Failed { failure, class: Some("torture".into()) })
    } else if chance < completes + 0.04 && !draining {
        Some(Ending::HandedBack)
    } else {
        None
    }
}

/// A request, attempts that fail, an answer.
fn event(rng: &mut StdRng, marker: &Marker, steps: usize) -> Event {
    let (step, attempt, text) = (marker.write.number, 1, marker.to_string());
    if marker.index == 0 {
        return Event::ModelRequestStarted(ModelRequestStarted { attempt, model: text, provider: "torture".into(), step });
    }
    if marker.index + 1 < steps {
        return Event::ModelResponseFailed(ModelResponseFailed { attempt, code: text, retryable: true, step });
    }
    Event::ModelResponseCompleted(ModelResponseCompleted {
        attempt,
        cost_usd: Some(Decimal::new(rng.random_range(0..1_000), 6)),
        message_index: step - 1,
        step,
        stop: Stop::EndTurn,
        text,
        tool_calls: Vec::new(),
        truncated: false,
        usage: TokenUsage {
            input_tokens: rng.random_range(0..100),
            output_tokens: rng.random_range(0..100),
            ..TokenUsage::default()
        },
    })
}

fn end(ending: &Ending, state: &RunState) -> Event {
    let usage = state.usage;
    match ending {
        Ending::Completed => Event::RunCompleted(RunEnded { usage }),
        Ending::Failed { failure, .. } => Event::RunFailed(RunFailed { failure: failure.clone(), usage }),
        Ending::Cancelled => Event::RunCancelled(RunEnded { usage }),
        Ending::HandedBack => Event::RunRequeued(RunRequeued { cause: RequeueCause::HandedBack }),
    }
}
