//! What a torture worker writes next: a step of a run, and perhaps its end, or what it waits for.

use baton_core::events::{
    Event, ModelRequestStarted, ModelResponseCompleted, ModelResponseFailed, RunEnded, RunFailed, RunRequeued, Stop, TokenUsage,
    ToolCall,
};
use baton_core::execution::{Asks, Ending, RunState};
use baton_core::runs::{Failure, FailureReason, RequeueCause};
use baton_core::tools::CallRows;
use rand::Rng;
use rand::rngs::StdRng;
use rust_decimal::Decimal;

use super::calls::{self, Calls};
use super::marker::{Marker, Write};
use super::worker::Held;
use super::world::{Stage, World};

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) write: Write,
    pub(super) events: Vec<Event>,
    pub(super) rows: CallRows,
    /// The fold with these events.
    pub(super) state: RunState,
    pub(super) then: Then,
}

#[derive(Debug)]
pub(super) enum Then {
    GoesOn,
    Ends(Ending),
    Waits(Asks),
}

impl Plan {
    /// Each write is a step of its own, so that steps count writes.
    pub(super) fn new(world: &World, rng: &mut StdRng, held: &Held) -> Self {
        let number = held.state.step + 1;
        let write = Write { epoch: held.lease.epoch(), number, nonce: rng.random() };
        let pending = &held.state.pending_calls;
        let ending = choose_ending(world, rng, held, number);
        let is_idle = pending.is_empty();
        let asks_for_calls = is_idle && ending.is_none() && world.stage() == Stage::Torture && rng.random_bool(0.6);
        let turn = if is_idle { turn(rng, number, asks_for_calls) } else { vec![request(number)] };
        let mut calls = Calls {
            world,
            rng,
            run_id: held.lease.run_id(),
            invocations: &held.invocations,
            is_new: held.is_new,
            events: turn,
            rows: CallRows::default(),
            asks: None,
        };
        match &ending {
            None if !is_idle => calls.go_on(pending),
            Some(Ending::Failed { .. } | Ending::Cancelled) => calls.close(),
            _ => {}
        }
        let Calls { mut events, rows, asks, .. } = calls;
        let count = events.len() + usize::from(ending.is_some());
        let mut state = held.state.clone();
        for (index, event) in events.iter_mut().enumerate() {
            Marker { write, index, count }.hide_in(event);
            state.apply(event).unwrap();
        }
        events.extend(ending.as_ref().map(|ending| end(ending, &state)));
        let then = match (ending, asks) {
            (Some(ending), _) => Then::Ends(ending),
            (None, Some(asks)) => Then::Waits(asks),
            (None, None) => Then::GoesOn,
        };
        Self { write, events, rows, state, then }
    }
}

fn choose_ending(world: &World, rng: &mut StdRng, held: &Held, step: u32) -> Option<Ending> {
    let draining = world.stage() != Stage::Torture;
    let chance: f64 = rng.random();
    let completes = match (draining, held.state.pending_calls.is_empty()) {
        (_, false) => 0.0,
        (true, true) => 0.5,
        (false, true) => 0.1,
    };
    if held.cancel_requested && chance < 0.8 {
        Some(Ending::Cancelled)
    } else if chance < completes {
        Some(Ending::Completed)
    } else if chance < completes + 0.01 {
        let failure = Failure::new(FailureReason::InternalError, Some(step), world.clock().now());
        Some(Ending::Failed { failure, class: Some("torture".into()) })
    } else if chance < completes + 0.04 && !draining {
        Some(Ending::HandedBack)
    } else {
        None
    }
}

/// A request, attempts that fail, an answer. One that asks for calls is whole.
fn turn(rng: &mut StdRng, step: u32, asks_for_calls: bool) -> Vec<Event> {
    let steps = rng.random_range(if asks_for_calls { 2..4 } else { 1..4 });
    let mut events = vec![request(step)];
    for _ in 2..steps {
        events.push(Event::ModelResponseFailed(ModelResponseFailed {
            attempt: 1,
            code: String::new(),
            cost_source: None,
            cost_usd: None,
            retryable: true,
            step,
            usage: None,
        }));
    }
    if steps > 1 {
        let tool_calls = if asks_for_calls { calls::requested(rng, step) } else { Vec::new() };
        events.push(response(rng, step, tool_calls));
    }
    events
}

/// Texts are left for the markers.
fn request(step: u32) -> Event {
    let (model, provider) = (String::new(), "torture".into());
    Event::ModelRequestStarted(ModelRequestStarted { attempt: 1, held: None, model, provider, step })
}

fn response(rng: &mut StdRng, step: u32, tool_calls: Vec<ToolCall>) -> Event {
    Event::ModelResponseCompleted(ModelResponseCompleted {
        attempt: 1,
        cost_source: None,
        cost_usd: Some(Decimal::new(rng.random_range(0..1_000), 6)),
        message_index: step - 1,
        step,
        stop: if tool_calls.is_empty() { Stop::EndTurn } else { Stop::ToolUse },
        text: String::new(),
        tool_calls,
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
