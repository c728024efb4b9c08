use super::*;

fn delta(offset: usize, text: &str) -> Delta {
    Delta {
        session_id: Uuid::nil(),
        run_id: Uuid::nil(),
        step: 1,
        attempt: 1,
        message_index: 0,
        kind: DeltaKind::Message,
        offset,
        text: text.into(),
    }
}

/// What a browser would have after these payloads.
fn text_of(payloads: &[String]) -> String {
    let mut units: Vec<u16> = Vec::new();
    for payload in payloads {
        let frame = payload.splitn(3, ':').nth(2).expect("three parts");
        let frame: serde_json::Value = serde_json::from_str(frame).expect("JSON");
        let offset = usize::try_from(frame["offset"].as_u64().expect("a number")).expect("small");
        assert_eq!(offset, units.len(), "no gap");
        units.extend(frame["text"].as_str().expect("text").encode_utf16());
    }
    String::from_utf16(&units).expect("whole characters")
}

#[test]
fn pieces_of_one_message_are_joined() {
    let mut buffer = LiveBuffer::default();
    buffer.add(delta(0, "Grüße "));
    buffer.add(delta(6, "👋"));
    buffer.add(delta(8, "!"));
    let payloads = buffer.drain(7_900);
    assert_eq!(payloads.len(), 1);
    assert_eq!(text_of(&payloads), "Grüße 👋!");
    assert!(buffer.drain(7_900).is_empty());
}

#[test]
fn a_long_text_is_split_at_characters_below_the_limit() {
    let text = "👋\"\n\u{1}世".repeat(4_000);
    let mut buffer = LiveBuffer::default();
    buffer.add(delta(0, &text));
    let payloads = buffer.drain(7_900);
    assert!(payloads.iter().all(|payload| payload.len() <= 7_900));
    assert_eq!(text_of(&payloads), text);
}

#[test]
fn what_is_too_much_for_one_flush_is_dropped_and_shows_as_a_gap() {
    let mut buffer = LiveBuffer::default();
    let piece = "x".repeat(WAITING_BYTES_MAX / 4);
    for number in 0..6 {
        buffer.add(delta(number * piece.len(), &piece));
    }
    assert_eq!(text_of(&buffer.drain(1_000)).len(), WAITING_BYTES_MAX);
    buffer.add(delta(6 * piece.len(), "the next"));
    assert!(buffer.drain(1_000)[0].contains("the next"), "a flush makes room");
}

#[test]
fn another_attempt_begins_again() {
    let mut buffer = LiveBuffer::default();
    buffer.add(delta(0, "one"));
    buffer.add(Delta { attempt: 2, ..delta(0, "two") });
    assert_eq!(buffer.drain(7_900).len(), 2);
}
