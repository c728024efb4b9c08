use serde_json::json;

use super::*;

/// A person's terminal, and what stands there of the current message after each of these events.
fn check(events: &[(&str, Value)], expected: &[&str]) {
    let mut transcript = Transcript { is_live: true, ..Transcript::new(false) };
    let shown = events.iter().map(|(name, data)| {
        let event = Event { event: (*name).into(), data: data.to_string(), ..Event::default() };
        assert!(transcript.show(&event).is_ok());
        transcript.shown.clone()
    });
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

fn started(step: u64, attempt: u64) -> (&'static str, Value) {
    ("model.request.started", json!({"step": step, "attempt": attempt}))
}

fn delta(step: u64, attempt: u64, offset: u64, text: &str) -> (&'static str, Value) {
    ("message.delta", json!({"step": step, "attempt": attempt, "offset": offset, "text": text}))
}

#[test]
fn a_delta_waits_for_what_is_stored_before_its_request() {
    let result = ("tool.call.completed", json!({"result": {"value": "108"}}));
    check(
        &[started(1, 1), delta(2, 1, 0, "The "), result, delta(2, 1, 4, "result"), started(2, 1), delta(2, 1, 10, " is")],
        &["", "", "", "", "The result", "The result is"],
    );
}

#[test]
fn a_delta_of_an_attempt_that_is_over_says_nothing() {
    check(
        &[started(1, 1), delta(1, 1, 0, "One"), delta(1, 2, 0, "Two"), started(1, 2), delta(1, 1, 3, "?"), delta(1, 2, 3, "!")],
        &["", "One", "One", "Two", "Two", "Two!"],
    );
}

#[test]
fn what_was_shown_beyond_what_is_kept_is_not_shown_again() {
    let message = json!({"step": 1, "attempt": 1, "truncated": true, "content": [{"type": "text", "text": "On"}]});
    let mut transcript = Transcript { is_live: true, ..Transcript::new(false) };
    for (kind, data) in [started(1, 1), delta(1, 1, 0, "One more"), ("assistant.message.completed", message)] {
        assert!(transcript.show(&Event { event: kind.into(), data: data.to_string(), ..Event::default() }).is_ok());
    }
    assert_eq!(transcript.shown, "");
}

#[test]
fn a_worker_that_stops_is_not_one_that_was_lost_nor_a_model_that_failed() {
    let interrupted = json!({"code": "interrupted"});
    assert_eq!(beside("model.response.failed", &interrupted), None);
    assert!(beside("model.response.failed", &json!({"code": "model_transient_error"})).is_some());
    let said = |cause: &str| beside("run.requeued", &json!({"cause": cause})).unwrap();
    assert!(said("handed_back").contains("stops") && said("lease_expired").contains("lost"));
}
