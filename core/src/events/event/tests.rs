use std::collections::HashSet;

use serde_json::json;
use time::macros::datetime;

use super::*;
use crate::content::text_content;
use crate::runs::FailureReason;

const ID: Uuid = Uuid::from_u128(0x0198_0000_0000_7000_8000_0000_0000_0001);

/// What makes a serializer betray itself: escapes, characters beyond the basic plane, JSON in a text.
const TEXT: &str = "Räksmörgås \u{1f44b}\u{2028}\r\n\t\0 {\"b\": 1, \"a\": 2}";

fn usage() -> Usage {
    Usage {
        cache_write_input_tokens: 1,
        cached_input_tokens: 2,
        cost_usd: Some("0.0300000000".parse().unwrap()),
        input_tokens: i64::MAX,
        model_calls: 4,
        output_tokens: 5,
        reasoning_tokens: 6,
        tool_calls: 7,
    }
}

/// Each type in each of its shapes.
fn samples() -> Vec<Event> {
    let failure = |step| Failure::new(FailureReason::InternalError, step, datetime!(2026-03-01 12:34:56.789012 UTC));
    let decided =
        || ToolCallDecided { call_id: TEXT.into(), invocation_id: ID, policy_version: "1".into(), reason_code: "rule".into() };
    let marked = || ToolCallMarked { call_id: TEXT.into(), invocation_id: ID };
    let mut samples = vec![
        Event::SessionCreated(SessionCreated { agent_id: "test".into(), agent_version: "1".into() }),
        Event::SessionClosed(Nothing {}),
        Event::UserMessageCreated(UserMessageCreated { content: text_content(TEXT) }),
        Event::RunQueued(RunQueued { priority: Priority::Interactive }),
        Event::RunClaimed(Nothing {}),
        Event::RunStarted(Nothing {}),
        Event::RunResumed(RunResumed { after: ResumeCause::LeaseExpired }),
        Event::RunRequeued(RunRequeued { cause: RequeueCause::HandedBack }),
        Event::RunCancelRequested(RunCancelRequested { requested_by: TEXT.into() }),
        Event::AssistantMessageCompleted(AssistantMessageCompleted {
            content: text_content(TEXT),
            message_index: 1,
            step: 2,
            truncated: true,
        }),
        Event::ToolCallProposed(ToolCallProposed {
            arguments: json!({"b": [{"d": 1.5, "c": TEXT}], "a": null}),
            call_id: TEXT.into(),
            invocation_id: ID,
            name: "math.calculate".into(),
            step: 2,
        }),
        Event::ToolCallAuthorized(decided()),
        Event::ToolCallDenied(decided()),
        Event::ToolCallStarted(marked()),
        Event::ToolCallUncertain(marked()),
        Event::ToolCallFailed(ToolCallFailed {
            call_id: TEXT.into(),
            invocation_id: ID,
            message: TEXT.into(),
            reason_code: "timeout".into(),
        }),
        Event::ApprovalRequested(ApprovalRequested {
            approval_id: ID,
            call_id: TEXT.into(),
            expires_at: datetime!(2026-03-01 12:34:56 UTC),
            risk: "high".into(),
            tool_name: "math.calculate".into(),
        }),
        Event::ApprovalInvalidated(ApprovalInvalidated { approval_id: ID, reason: TEXT.into() }),
        Event::ArtifactCreated(ArtifactCreated {
            artifact_id: ID,
            media_type: "text/html".into(),
            name: TEXT.into(),
            size_bytes: i64::MAX,
        }),
        Event::RunWaitingForApproval(RunWaitingForApproval { approval_ids: vec![ID, ID] }),
        Event::UserInputDelivered(UserInputDelivered { content: text_content(TEXT), question_id: ID }),
        Event::RunCompleted(RunEnded { usage: usage() }),
        Event::RunCancelled(RunEnded { usage: Usage::default() }),
    ];
    for truncated in [false, true] {
        let call = || ToolCall { arguments_raw: TEXT.into(), call_id: TEXT.into(), index: 0, name: TEXT.into() };
        let cost_usd = truncated.then(|| "0.000000000001".parse().unwrap());
        samples.push(Event::ModelRequestStarted(ModelRequestStarted {
            attempt: 1,
            held: truncated.then_some(Hold { cost_usd, input_tokens: 3, output_tokens: 256 }),
            model: TEXT.into(),
            provider: TEXT.into(),
            step: 2,
        }));
        samples.push(Event::ModelResponseFailed(ModelResponseFailed {
            attempt: 1,
            code: TEXT.into(),
            cost_source: truncated.then_some(CostSource::Estimated),
            cost_usd,
            retryable: true,
            step: 2,
            usage: truncated.then_some(TokenUsage { input_tokens: 3, ..TokenUsage::default() }),
        }));
        samples.push(Event::ModelResponseCompleted(ModelResponseCompleted {
            attempt: 1,
            cost_source: truncated.then_some(CostSource::Reported),
            cost_usd,
            message_index: 1,
            step: 2,
            stop: Stop::ToolUse,
            text: TEXT.into(),
            tool_calls: vec![call(), call()],
            truncated,
            usage: TokenUsage { input_tokens: 10, cached_input_tokens: 4, ..TokenUsage::default() },
        }));
        samples.push(Event::ToolCallCompleted(ToolCallCompleted {
            artifact_id: truncated.then_some(ID),
            call_id: TEXT.into(),
            invocation_id: ID,
            result: json!({"z": {"b": 1, "a": [true, null]}, "value": TEXT}),
            truncated,
        }));
        samples.push(Event::ApprovalResolved(ApprovalResolved {
            approval_id: ID,
            decision: Decision::ApproveOnce,
            resolved_by: truncated.then(|| TEXT.into()),
        }));
        samples.push(Event::RunWaitingForUser(RunWaitingForUser {
            choices: truncated.then(|| vec![TEXT.into(), String::new()]),
            expires_at: datetime!(2026-03-01 12:34:56 UTC),
            question: TEXT.into(),
            question_id: ID,
        }));
        samples.push(Event::RunFailed(RunFailed { failure: failure(truncated.then_some(3)), usage: usage() }));
    }
    samples
}

#[test]
fn every_event_type_has_a_sample() {
    let sampled: HashSet<EventType> = samples().iter().map(Event::event_type).collect();
    let missing: Vec<&EventType> = EventType::ALL.iter().filter(|event_type| !sampled.contains(event_type)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn gate_b8_every_event_reads_back_as_it_was_written() {
    for event in samples() {
        let body = event.body();
        let read = Event::decode(event.event_type().as_str(), event.schema_version(), &body).unwrap();
        assert_eq!(read, event, "{body}");
        assert_eq!(read.body(), body);
    }
}

/// What was once written must be read for ever: a body of the file that this program does not read, or writes differently,
/// needs a new schema version and an upcaster. Lines are added to the file, and never changed.
#[test]
fn gate_b8_every_body_that_was_ever_written_decodes() {
    let mut of_types = HashSet::new();
    for line in include_str!("stored.tsv").lines() {
        let mut columns = line.splitn(3, '\t');
        let (event_type, version, body) = (columns.next().unwrap(), columns.next().unwrap(), columns.next().unwrap());
        let event = Event::decode(event_type, version.parse().unwrap(), body).unwrap_or_else(|error| panic!("{line}: {error}"));
        of_types.insert(event.event_type());
        if version == SCHEMA_VERSION.to_string() {
            assert_eq!(event.body(), body);
        }
    }
    let missing: Vec<&EventType> = EventType::ALL.iter().filter(|event_type| !of_types.contains(event_type)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Our map of values is sorted by code point, and its text is compact: a body that is both comes back as it was.
#[test]
fn every_body_is_compact_with_its_keys_in_order() {
    for event in samples() {
        let body = event.body();
        let sorted = serde_json::from_str::<Value>(&body).unwrap().to_string();
        assert_eq!(body, sorted, "{}", event.event_type());
    }
}

/// The head of a frame has these names; a body with one of them would give the data a key twice.
#[test]
fn no_body_uses_a_name_of_the_head() {
    for event in samples() {
        let body: Value = serde_json::from_str(&event.body()).unwrap();
        for name in ["run_id", "session_id", "sequence", "type", "schema_version", "created_at"] {
            assert!(body.get(name).is_none(), "{} has a `{name}`", event.event_type());
        }
    }
}

#[test]
fn gate_b8_what_this_program_does_not_know_is_an_error() {
    let error = |event_type: &str, version, body: &str| Event::decode(event_type, version, body).unwrap_err();
    assert!(matches!(error("run.teleported", 1, "{}"), DecodeError::UnknownType));
    assert!(matches!(error("", 1, "{}"), DecodeError::UnknownType));
    for version in [0, 2, i16::MAX] {
        for event in samples() {
            let refused = error(event.event_type().as_str(), version, &event.body());
            assert!(matches!(refused, DecodeError::NewerVersion { event_type, version: named }
                if event_type == event.event_type() && named == version));
        }
    }
    for body in ["", "null", "[]", "{", "{\"priority\":\"URGENT\"}", "{}"] {
        assert!(matches!(error("run.queued", 1, body), DecodeError::Body { event_type: EventType::RunQueued, .. }), "{body}");
    }
}

#[test]
fn a_run_ends_with_three_of_the_types() {
    let terminal: Vec<&str> =
        EventType::ALL.iter().filter(|event_type| event_type.is_terminal()).map(|event_type| event_type.as_str()).collect();
    assert_eq!(terminal, ["run.completed", "run.failed", "run.cancelled"]);
}
