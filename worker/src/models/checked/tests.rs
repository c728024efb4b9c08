use baton_core::events::Stop;

use super::*;
use crate::models::Completion;

fn completed() -> ModelEvent {
    ModelEvent::Completed(Completion { stop: Stop::EndTurn, usage: None, continuation: None, request_id: None })
}

fn piece(index: u32, call_id: &str, name: &str) -> ModelEvent {
    ModelEvent::ToolCallDelta { index, call_id: call_id.into(), name: name.into(), arguments: "{".into() }
}

fn text() -> ModelEvent {
    ModelEvent::TextDelta("a".into())
}

/// Whether a stream is taken as it is.
fn is_sound(events: &[ModelEvent]) -> bool {
    let stream = checked(Box::pin(futures::stream::iter(events.to_vec())));
    let checked: Vec<ModelEvent> = futures::executor::block_on_stream(Box::pin(stream)).collect();
    let ends = |event: &&ModelEvent| matches!(event, ModelEvent::Completed(_) | ModelEvent::Failed(_));
    assert_eq!(checked.iter().filter(ends).count(), 1, "one end, whatever came");
    assert_eq!(checked.last().filter(ends), checked.last());
    assert!(checked == events || checked.last() == Some(&violation()));
    checked == events
}

#[test]
fn gate_d1_each_invariant_has_a_stream_that_breaks_it() {
    assert!(is_sound(&[text(), piece(0, "a", "f"), piece(0, "a", "f"), piece(1, "b", "g"), text(), completed()]));
    for broken in [
        vec![text()],                                                      // no end
        vec![],                                                            // nothing at all
        vec![completed(), completed()],                                    // two ends
        vec![completed(), text()],                                         // something behind the end
        vec![piece(0, "", "f"), completed()],                              // whose?
        vec![piece(0, "a", ""), completed()],                              // of what?
        vec![piece(0, "a", "f"), piece(0, "b", "f"), completed()],         // another identifier
        vec![piece(0, "a", "f"), piece(0, "a", "g"), completed()],         // another name
        vec![piece(0, "a", "f"), text(), piece(0, "a", "f"), completed()], // in two pieces
        vec![piece(0, "a", "f"), piece(1, "b", "f"), piece(0, "a", "f"), completed()],
        vec![piece(1, "a", "f"), completed()], // a gap
    ] {
        assert!(!is_sound(&broken), "{broken:?}");
    }
}
