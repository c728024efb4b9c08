use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::content::text_content;
use crate::events::*;
use crate::runs::Usage;

fn user(text: &str) -> Event {
    Event::UserMessageCreated(UserMessageCreated { content: text_content(text) })
}

fn turn(calls: &[&str]) -> Event {
    let tool_calls = (0..).zip(calls).map(|(index, id)| ToolCall {
        arguments_raw: "{}".into(),
        call_id: (*id).into(),
        index,
        name: "math.calculate".into(),
    });
    Event::ModelResponseCompleted(ModelResponseCompleted {
        attempt: 1,
        cost_source: None,
        cost_usd: None,
        message_index: 0,
        step: 1,
        stop: Stop::ToolUse,
        text: String::new(),
        tool_calls: tool_calls.collect(),
        truncated: false,
        usage: TokenUsage::default(),
    })
}

fn completed(call_id: &str, result: i64) -> Event {
    Event::ToolCallCompleted(ToolCallCompleted {
        artifact_id: None,
        call_id: call_id.into(),
        invocation_id: Uuid::nil(),
        result: json!(result),
        truncated: false,
    })
}

fn cancelled() -> Event {
    Event::RunCancelled(RunEnded { usage: Usage::default() })
}

fn denied(call_id: &str) -> Event {
    Event::ToolCallDenied(ToolCallDecided {
        call_id: call_id.into(),
        invocation_id: Uuid::nil(),
        policy_version: "p".into(),
        reason_code: "tool_policy_denied".into(),
    })
}

fn conversation(events: &[Event]) -> Conversation {
    let mut conversation = Conversation::default();
    events.iter().for_each(|event| conversation.apply(event));
    conversation
}

/// Call identifiers of the results, and what is in them.
fn results(conversation: &Conversation) -> Vec<(String, Value)> {
    let results = conversation.messages().iter().filter_map(|message| match message {
        Message::ToolResult { call_id, text } => Some((call_id.clone(), serde_json::from_str(text).unwrap())),
        _ => None,
    });
    results.collect()
}

#[test]
fn case_d20_a_run_that_ends_between_a_call_and_its_result_leaves_a_session_that_goes_on() {
    let conversation = conversation(&[user("a"), turn(&["1", "2", "3"]), completed("1", 1), cancelled(), user("b")]);
    let results = results(&conversation);
    assert_eq!(results.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!(results[1].1["reason_code"], "cancelled");
    assert!(matches!(conversation.messages().last(), Some(Message::User { .. })));
}

#[test]
fn results_stand_in_the_order_of_their_calls_whatever_came_first() {
    let conversation = conversation(&[user("a"), turn(&["1", "2", "3"]), denied("3"), completed("2", 2), completed("1", 1)]);
    assert_eq!(results(&conversation).iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
}

#[test]
fn case_d21_results_belong_to_their_own_turn() {
    // The same identifier in two turns, the second without a result; and a result that nobody asked for.
    let conversation = conversation(&[
        completed("0", 0),
        user("a"),
        turn(&["1"]),
        completed("1", 1),
        completed("9", 9),
        turn(&["1"]),
        cancelled(),
    ]);
    let results = results(&conversation);
    assert_eq!(results.len(), 2, "{results:?}");
    assert_eq!((&results[0].1, &results[1].1["reason_code"]), (&json!(1), &json!("cancelled")));
}

#[test]
fn what_the_user_answered_is_the_result_of_the_call_that_asked() {
    let answered = Event::UserInputDelivered(UserInputDelivered { content: text_content("blue"), question_id: Uuid::nil() });
    let conversation = conversation(&[user("a"), turn(&["1", "2"]), completed("1", 1), answered, cancelled()]);
    let results = results(&conversation);
    assert_eq!((&results[1].1, results.len()), (&json!({"answer": "blue"}), 2));
}

#[test]
fn gate_c12_a_failure_is_shown_with_exactly_six_fields() {
    let conversation = conversation(&[user("a"), turn(&["1"]), denied("1")]);
    let (_, failure) = results(&conversation).remove(0);
    let fields: Vec<&String> = failure.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["action", "message", "reason_code", "remediation", "retryable", "status"]);
    assert_eq!((&failure["action"], &failure["status"]), (&json!("math.calculate"), &json!("denied")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any history, of any damage: after it, every call of every turn has one result, directly behind it and in order.
    #[test]
    fn case_d21_every_call_has_one_result_directly_behind_its_turn(choices in prop::collection::vec((0_u8..6, 0_u8..3), 0..40)) {
        let mut events: Vec<Event> = choices.iter().map(|(kind, id)| {
            let id = id.to_string();
            match kind {
                0 => user("u"),
                1 => turn(&["0", "1"]),
                2 => turn(&["2"]),
                3 => completed(&id, 1),
                4 => denied(&id),
                _ => cancelled(),
            }
        }).collect();
        events.push(cancelled());
        let conversation = conversation(&events);
        let mut messages = conversation.messages().iter().peekable();
        while let Some(message) = messages.next() {
            prop_assert!(!matches!(message, Message::ToolResult { .. }), "a result without its call");
            let Message::Assistant { tool_calls, .. } = message else { continue };
            for call in tool_calls {
                let next = messages.next();
                prop_assert!(matches!(next, Some(Message::ToolResult { call_id, .. }) if *call_id == call.call_id), "{:?}", next);
            }
        }
    }
}
