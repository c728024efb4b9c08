//! What a torture worker writes next: a step of a run, and perhaps its end, or what it waits for.

use std::sync::Arc;

use baton_core::events::{
    CostSource, Event, Hold, ModelRequestStarted, ModelResponseCompleted, ModelResponseFailed, RunEnded, RunFailed, RunRequeued,
    Stop, TokenUsage, ToolCall,
};
use baton_core::execution::{Asks, Ending, RunState};
use baton_core::models::{ModelRows, Prices, SettledCall, StartedCall};
use baton_core::runs::{Failure, FailureReason, RequeueCause};
use baton_core::tools::CallRows;
use rand::Rng;
use rand::rngs::StdRng;
use rust_decimal::Decimal;

use super::calls::{self, Calls};
use super::marker::{Marker, Write};
use super::worker::Held;
use super::world::{Stage, World};

/// Who is asked. Nothing is computed from the prices: what a call costs is by chance.
const PROVIDER: &str = "torture";
const PRICES: Prices =
    Prices { input: Decimal::ONE, cached_input: Decimal::ONE, cache_write_input: Decimal::ONE, output: Decimal::ONE };

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) write: Write,
    pub(super) events: Vec<Event>,
    pub(super) rows: CallRows,
    pub(super) model: ModelRows,
    /// The fold with these events.
    pub(super) state: RunState,
    pub(super) then: Then,
}

impl Plan {
    /// The step of a call of a model that is under way after this.
    pub(super) fn asked(&self) -> Option<u32> {
        self.model.started.as_ref().map(|call| call.step)
    }
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
        let may_ask = is_idle && held.asked.is_some() && ending.is_none() && world.stage() == Stage::Torture;
        let asks_for_calls = may_ask && rng.random_bool(0.7);
        let turn = if is_idle { turn(rng, number, held.asked, asks_for_calls) } else { vec![request(number, None)] };
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
        let model = model_rows(&events, ending.is_some());
        events.extend(ending.as_ref().map(|ending| end(ending, &state)));
        let then = match (ending, asks) {
            (Some(ending), _) => Then::Ends(ending),
            (None, Some(asks)) => Then::Waits(asks),
            (None, None) => Then::GoesOn,
        };
        Self { write, events, rows, model, state, then }
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

/// What came of the request that the write before began, and the next one. With calls to make, nothing is held for that.
fn turn(rng: &mut StdRng, step: u32, asked: Option<u32>, asks_for_calls: bool) -> Vec<Event> {
    let answer = asked.map(|asked| {
        let tool_calls = if asks_for_calls { calls::requested(rng, asked) } else { Vec::new() };
        if tool_calls.is_empty() && rng.random_bool(0.3) { failure(rng, asked) } else { response(rng, asked, tool_calls) }
    });
    let hold = (!asks_for_calls).then(|| Hold {
        cost_usd: Some(cost(rng)),
        input_tokens: rng.random_range(0..1_000),
        output_tokens: rng.random_range(0..1_000),
    });
    answer.into_iter().chain([request(step, hold)]).collect()
}

/// Texts are left for the markers.
fn request(step: u32, held: Option<Hold>) -> Event {
    let (model, provider) = (String::new(), PROVIDER.into());
    Event::ModelRequestStarted(ModelRequestStarted { attempt: 1, held, model, provider, step })
}

fn failure(rng: &mut StdRng, step: u32) -> Event {
    Event::ModelResponseFailed(ModelResponseFailed {
        attempt: 1,
        code: String::new(),
        cost_source: Some(CostSource::Reported),
        cost_usd: Some(cost(rng)),
        retryable: true,
        step,
        usage: Some(usage(rng)),
    })
}

fn response(rng: &mut StdRng, step: u32, tool_calls: Vec<ToolCall>) -> Event {
    Event::ModelResponseCompleted(ModelResponseCompleted {
        attempt: 1,
        cost_source: Some(CostSource::Reported),
        cost_usd: Some(cost(rng)),
        message_index: step - 1,
        step,
        stop: if tool_calls.is_empty() { Stop::EndTurn } else { Stop::ToolUse },
        text: String::new(),
        tool_calls,
        truncated: false,
        usage: usage(rng),
    })
}

/// Every call has one: without, a run's cost is unknown from then on, and there would be nothing to compare.
fn cost(rng: &mut StdRng) -> Decimal {
    Decimal::new(rng.random_range(0..1_000), 6)
}

fn usage(rng: &mut StdRng) -> TokenUsage {
    let mut tokens = || rng.random_range(0..100);
    TokenUsage {
        cache_write_input_tokens: tokens(),
        cached_input_tokens: tokens(),
        input_tokens: tokens(),
        output_tokens: tokens(),
        reasoning_tokens: tokens(),
    }
}

/// The rows that these events say, and what the provider of a turn with calls wants back.
fn model_rows(events: &[Event], ends: bool) -> ModelRows {
    let mut rows = ModelRows::default();
    for event in events {
        match event {
            Event::ModelRequestStarted(ModelRequestStarted { held: Some(hold), model, provider, step, attempt }) => {
                rows.started = Some(Box::new(StartedCall {
                    step: *step,
                    attempt: *attempt,
                    provider: provider.clone(),
                    model: model.clone(),
                    prices: Some(PRICES),
                    input_tokens: hold.input_tokens,
                    output_tokens: hold.output_tokens,
                    cost_usd: hold.cost_usd,
                }));
            }
            Event::ModelResponseFailed(ModelResponseFailed { usage: Some(usage), step, attempt, cost_usd, .. }) => {
                rows.settled = Some(settled(*step, *attempt, *usage, *cost_usd));
            }
            Event::ModelResponseCompleted(response) => {
                rows.settled = Some(settled(response.step, response.attempt, response.usage, response.cost_usd));
                let is_continued = !ends && !response.tool_calls.is_empty();
                rows.continuation = is_continued.then(|| (response.step, Arc::from(response.text.as_bytes())));
            }
            _ => {}
        }
    }
    rows
}

fn settled(step: u32, attempt: u32, usage: TokenUsage, cost_usd: Option<Decimal>) -> Box<SettledCall> {
    let (cost_source, provider_request_id) = (CostSource::Reported, None);
    Box::new(SettledCall { step, attempt, usage, cost_usd, cost_source, provider_request_id })
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
