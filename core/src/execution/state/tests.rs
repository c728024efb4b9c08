use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::*;
use crate::content::text_content;
use crate::events::*;
use crate::execution::Message;
use crate::runs::{Failure, Priority, RequeueCause};

const CALL: Uuid = Uuid::from_u128(1);

fn fold(events: &[Event]) -> Result<RunState, FoldError> {
    let mut state = RunState::new(Conversation::default());
    events.iter().try_for_each(|event| state.apply(event)).map(|()| state)
}

fn began() -> Vec<Event> {
    vec![
        Event::UserMessageCreated(UserMessageCreated { content: text_content("hello") }),
        Event::RunQueued(RunQueued { priority: Priority::Interactive }),
        Event::RunClaimed(Nothing {}),
        Event::RunStarted(Nothing {}),
    ]
}

fn request(step: u32, attempt: u32) -> Event {
    Event::ModelRequestStarted(ModelRequestStarted { attempt, held: None, model: "m".into(), provider: "p".into(), step })
}

fn response(step: u32, cost_usd: Option<Decimal>, calls: &[&str]) -> Event {
    let tool_calls = (0..).zip(calls).map(|(index, id)| ToolCall {
        arguments_raw: "{}".into(),
        call_id: (*id).into(),
        index,
        name: "t".into(),
    });
    Event::ModelResponseCompleted(ModelResponseCompleted {
        attempt: 1,
        cost_source: None,
        cost_usd,
        message_index: step - 1,
        step,
        stop: Stop::EndTurn,
        text: "text".into(),
        tool_calls: tool_calls.collect(),
        truncated: false,
        usage: TokenUsage { input_tokens: 10, output_tokens: 3, ..TokenUsage::default() },
    })
}

fn failed(step: u32, attempt: u32, code: &str, usage: Option<TokenUsage>) -> Event {
    Event::ModelResponseFailed(ModelResponseFailed {
        attempt,
        code: code.into(),
        cost_source: None,
        cost_usd: usage.map(|_| Decimal::new(1, 2)),
        retryable: true,
        step,
        usage,
    })
}

fn holding(step: u32, attempt: u32, cost_usd: Option<Decimal>) -> Event {
    let held = Some(Hold { cost_usd, input_tokens: 100, output_tokens: 400 });
    Event::ModelRequestStarted(ModelRequestStarted { attempt, held, model: "m".into(), provider: "p".into(), step })
}

fn proposed(call_id: &str) -> Event {
    Event::ToolCallProposed(ToolCallProposed {
        arguments: json!({}),
        call_id: call_id.into(),
        invocation_id: CALL,
        name: "t".into(),
        step: 1,
    })
}

fn started(call_id: &str) -> Event {
    Event::ToolCallStarted(ToolCallMarked { call_id: call_id.into(), invocation_id: CALL })
}

fn completed(call_id: &str) -> Event {
    Event::ToolCallCompleted(ToolCallCompleted {
        artifact_id: None,
        call_id: call_id.into(),
        invocation_id: CALL,
        result: json!(1),
        truncated: false,
    })
}

fn requeued(cause: RequeueCause) -> Event {
    Event::RunRequeued(RunRequeued { cause })
}

#[test]
fn counters_are_totals() {
    let mut events = began();
    events.extend([request(1, 1), response(1, None, &["a", "b"]), proposed("a"), proposed("b"), started("a"), completed("a")]);
    let state = fold(&events).unwrap();
    assert_eq!((state.step, state.turns, state.claims), (1, 1, 1));
    assert_eq!((state.usage.model_calls, state.usage.tool_calls, state.usage.input_tokens), (1, 2, 10));
    assert_eq!(state.pending_calls.iter().map(|pending| pending.call.call_id.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_call_is_where_the_log_left_it() {
    let mut events = began();
    events.extend([request(1, 1), response(1, None, &["a"])]);
    assert_eq!(fold(&events).unwrap().pending_calls[0].stage, CallStage::Requested);
    events.push(proposed("a"));
    let pending = &fold(&events).unwrap().pending_calls[0];
    let proposal = Proposal { invocation_id: CALL, arguments: json!({}) };
    assert_eq!((&pending.stage, pending.proposal.as_ref()), (&CallStage::Proposed, Some(&proposal)));
    events.extend([started("a"), requeued(RequeueCause::LeaseExpired), Event::RunClaimed(Nothing {})]);
    let pending = &fold(&events).unwrap().pending_calls[0];
    assert_eq!((&pending.stage, pending.proposal.as_ref()), (&CallStage::Started, Some(&proposal)));
}

#[test]
fn only_failed_attempts_of_this_step_count() {
    let failed = |attempt| failed(1, attempt, "c", None);
    let mut events = began();
    events.extend([
        request(1, 1),
        failed(1),
        request(1, 2),
        requeued(RequeueCause::LeaseExpired),
        Event::RunClaimed(Nothing {}),
        request(1, 3),
    ]);
    let state = fold(&events).unwrap();
    assert_eq!((state.attempt, state.failed_attempts, state.usage.model_calls), (3, 1, 3));
    events.extend([response(1, None, &[]), request(2, 1)]);
    assert_eq!(fold(&events).unwrap().failed_attempts, 0);
}

#[test]
fn losses_are_expiries_only() {
    let mut events = began();
    for cause in [RequeueCause::HandedBack, RequeueCause::LeaseExpired] {
        events.extend([requeued(cause), Event::RunClaimed(Nothing {})]);
    }
    let failure = Failure::new(FailureReason::LeaseLostTooOften, None, OffsetDateTime::UNIX_EPOCH);
    events.push(Event::RunFailed(RunFailed { failure, usage: Usage::default() }));
    let state = fold(&events).unwrap();
    assert_eq!((state.claims, state.lease_losses, state.status), (3, 2, RunStatus::Failed));
}

#[test]
fn one_unpriced_call_makes_the_cost_unknown() {
    let cost = |costs: &[Option<Decimal>]| {
        let mut events = began();
        for (step, cost) in (1..).zip(costs) {
            events.extend([request(step, 1), response(step, *cost, &[])]);
        }
        fold(&events).unwrap().usage.cost_usd
    };
    let cents = |cents| Some(Decimal::new(cents, 2));
    assert_eq!(cost(&[]), None);
    assert_eq!(cost(&[cents(5), cents(7)]), cents(12));
    assert_eq!(cost(&[cents(5), None, cents(7)]), None);
}

#[test]
fn a_log_that_contradicts_the_rules_is_an_error() {
    let end = Event::RunCompleted(RunEnded { usage: Usage::default() });
    let mut events = began();
    events.extend([end.clone(), end]);
    assert_eq!(fold(&events), Err(FoldError::Transition { event_type: EventType::RunCompleted, status: RunStatus::Completed }));
    let mut events = began();
    events.push(completed("never asked for"));
    assert_eq!(fold(&events), Err(FoldError::UnknownCall { event_type: EventType::ToolCallCompleted }));
}

#[test]
fn a_run_that_ended_amid_its_calls_leaves_a_usable_conversation() {
    let mut events = began();
    events.extend([request(1, 1), response(1, None, &["a", "b"]), proposed("a"), proposed("b"), started("a"), completed("a")]);
    events.push(Event::RunCancelled(RunEnded { usage: Usage::default() }));
    let state = fold(&events).unwrap();
    let answered: Vec<&str> = state
        .conversation
        .messages()
        .iter()
        .filter_map(|message| match message {
            Message::ToolResult { call_id, .. } => Some(call_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(answered, ["a", "b"]);
}

#[test]
fn a_long_history_loses_its_oldest_exchanges_and_says_so() {
    let mut history = Conversation::default();
    for number in 0..100 {
        history.apply(&Event::UserMessageCreated(UserMessageCreated { content: text_content(format!("{number:0>300}")) }));
        history.apply(&response(1, None, &["a"]));
        history.apply(&completed("a"));
    }
    history.trim(1_000);
    assert!(matches!(history.messages()[..2], [Message::Note { .. }, Message::User { .. }]));
    assert!(history.messages().len() < 40);
    let before = history.clone();
    history.trim(1_000_000);
    assert_eq!(history.messages()[1..], before.messages()[1..], "what fits stays");
}

#[test]
fn what_is_held_is_charged_until_the_answer_says_what_it_was() {
    let charged = |events: &[Event]| {
        let usage = fold(&[began(), events.to_vec()].concat()).unwrap().usage;
        (usage.input_tokens, usage.output_tokens, usage.cost_usd.map(|cost| cost.to_string()))
    };
    let cost = |cents| Some(Decimal::new(cents, 2));
    let said = |input, output, cost: &str| (input, output, Some(cost.to_owned()));
    assert_eq!(charged(&[holding(1, 1, cost(50))]), said(100, 400, "0.5"));
    assert_eq!(charged(&[holding(1, 1, cost(50)), response(1, cost(2), &[])]), said(10, 3, "0.02"));
    let spent = TokenUsage { input_tokens: 7, ..TokenUsage::default() };
    assert_eq!(charged(&[holding(1, 1, cost(50)), failed(1, 1, "c", Some(spent))]), said(7, 0, "0.01"));
    // A crash: the next attempt takes nothing back.
    let again = [holding(1, 1, cost(50)), holding(1, 2, cost(50)), response(1, cost(2), &[])];
    assert_eq!(charged(&again), said(110, 403, "0.52"));
    assert_eq!(charged(&[holding(1, 1, None)]), (100, 400, None));
    assert_eq!(charged(&[holding(1, 1, None), response(1, None, &[]), holding(2, 1, cost(1))]).2, None);
}

#[test]
fn an_attempt_that_was_cut_off_says_nothing_of_the_model() {
    let mut events = began();
    events.extend([request(1, 1), failed(1, 1, ModelResponseFailed::INTERRUPTED, None), request(1, 2), failed(1, 2, "c", None)]);
    let state = fold(&events).unwrap();
    assert_eq!((state.attempt, state.failed_attempts), (2, 1));
}

#[test]
fn a_run_is_pinned_to_whom_it_asked_first() {
    let mut events = began();
    events.extend([request(1, 1), response(1, None, &[])]);
    let other = Event::ModelRequestStarted(ModelRequestStarted {
        attempt: 1,
        held: None,
        model: "other".into(),
        provider: "other".into(),
        step: 2,
    });
    events.push(other);
    assert_eq!(fold(&events).unwrap().pinned, Some(Pinned { provider: "p".into(), model: "m".into() }));
}
