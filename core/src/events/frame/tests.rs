use serde_json::{Value, json};
use time::macros::datetime;

use super::*;
use crate::content::text_content;
use crate::events::event::{Event, UserMessageCreated};

const SESSION: Uuid = Uuid::from_u128(7);
const RUN: Uuid = Uuid::from_u128(8);

fn event(event_type: &str, run_id: Option<Uuid>, body: &str) -> StoredEvent {
    StoredEvent {
        sequence: 42,
        run_id,
        event_type: event_type.into(),
        schema_version: 1,
        created_at: datetime!(2026-03-01 12:34:56.789012 UTC),
        body: body.into(),
    }
}

fn text(frame: &Frame) -> &str {
    std::str::from_utf8(frame.bytes()).unwrap()
}

/// What a client makes of bytes: the standard's rules, in which CR, LF and CRLF end a line and an empty line ends an event.
#[derive(Debug, Default, PartialEq)]
struct Parsed {
    id: Option<String>,
    event: String,
    data: String,
}

fn parse(bytes: &Bytes) -> Vec<Parsed> {
    let text = std::str::from_utf8(bytes).unwrap().replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut event) = (Vec::new(), Parsed::default());
    for line in text.strip_suffix('\n').unwrap().split('\n') {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => events.push(std::mem::take(&mut event)),
            "id" => event.id = Some(value.into()),
            "event" => event.event = value.into(),
            "data" => event.data = value.into(),
            other => panic!("a field `{other}`"),
        }
    }
    assert_eq!(event, Parsed::default(), "the last frame has its blank line");
    events
}

#[test]
fn the_head_is_fixed_and_the_body_follows_as_it_is_stored() {
    let frame = persisted(SESSION, &event("run.queued", Some(RUN), r#"{"priority":"ASYNC"}"#));
    assert_eq!(
        text(&frame),
        concat!(
            "id: 42\nevent: run.queued\n",
            r#"data: {"run_id":"00000000-0000-0000-0000-000000000008","session_id":"00000000-0000-0000-0000-000000000007","#,
            r#""sequence":42,"type":"run.queued","schema_version":1,"created_at":"2026-03-01T12:34:56.789012Z","priority":"ASYNC"}"#,
            "\n\n"
        )
    );
    assert!(matches!(frame, Frame::Persisted { sequence: 42, event_type: Some(EventType::RunQueued), .. }));
    assert_eq!(frame.run_id(), Some(RUN));
}

#[test]
fn case_c32_an_empty_body_closes_the_head_and_a_session_event_has_a_null_run() {
    let frame = persisted(SESSION, &event("session.closed", None, "{}"));
    let data = text(&frame).split_once("data: ").unwrap().1.trim_end();
    assert!(data.starts_with(r#"{"run_id":null,"session_id""#), "{data}");
    assert!(data.ends_with(r#","created_at":"2026-03-01T12:34:56.789012Z"}"#), "{data}");
    assert_eq!(serde_json::from_str::<Value>(data).unwrap().as_object().unwrap().len(), 6);
    assert_eq!(frame.run_id(), None);
}

#[test]
fn case_c1_a_hostile_text_stays_inside_one_event() {
    let hostile = [
        "\r",
        "\n",
        "\r\n\r\n",
        "\n\nid: 99\nevent: run.completed\ndata: {}\n\n",
        "\u{2028}\u{2029}\u{85}",
        "\0",
        "\u{feff}",
        "\"}",
        "\\",
        "\\u000a\\n",
        "\u{1f44b}\u{fffd}",
        ": hb\n\n",
        "retry: 0\n",
    ];
    for text in hostile {
        let body = Event::UserMessageCreated(UserMessageCreated { content: text_content(text) }).body();
        let parsed = parse(persisted(SESSION, &event("user.message.created", Some(RUN), &body)).bytes());
        let [parsed] = &parsed[..] else { panic!("{text:?} became {parsed:?}") };
        assert_eq!((parsed.id.as_deref(), parsed.event.as_str()), (Some("42"), "user.message.created"));
        let data: Value = serde_json::from_str(&parsed.data).unwrap();
        assert_eq!((&data["sequence"], &data["content"][0]["text"]), (&json!(42), &json!(text)));
    }
}

/// The column of the type has no CHECK.
#[test]
fn case_c2_a_hostile_type_cannot_forge_a_field() {
    for name in ["run.queued\n\nid: 7", "a\"b", "run.queued\r", "\u{2028}"] {
        let frame = persisted(SESSION, &event(name, Some(RUN), "{}"));
        let parsed = parse(frame.bytes());
        assert_eq!(parsed.len(), 1, "{name:?}");
        assert_eq!(parsed[0].id.as_deref(), Some("42"));
        serde_json::from_str::<Value>(&parsed[0].data).unwrap();
        assert!(matches!(frame, Frame::Persisted { event_type: None, .. }));
    }
}

fn payload(frame: &str) -> String {
    format!("{SESSION}:message.delta:{frame}")
}

fn delta() -> Value {
    json!({"run_id": RUN, "step": 3, "attempt": 2, "message_index": 1, "offset": 5, "text": "a:b\n\u{2028}"})
}

#[test]
fn a_live_frame_is_passed_on_without_an_id() {
    let sent = delta().to_string();
    let live = live(&payload(&sent)).unwrap();
    assert_eq!((live.session_id, live.run_id, live.place), (SESSION, RUN, (1, 3, 2)));
    let parsed = parse(live.frame.bytes());
    assert_eq!(parsed, [Parsed { id: None, event: "message.delta".into(), data: sent }]);
}

#[test]
fn a_payload_that_is_not_ours_is_refused() {
    let spread = serde_json::to_string_pretty(&delta()).unwrap();
    let foreign = [
        String::new(),
        "::".into(),
        SESSION.to_string(),
        format!("{SESSION}:message.delta"),
        payload(""),
        payload("{}"),
        payload("null"),
        payload(&spread),
        payload(&spread.replace('\n', "\r")),
        payload(&delta().to_string().replace("\"offset\":5", "\"offset\":-5")),
        payload(&format!("{}\n\nid: 9\n", delta())),
        format!("{SESSION}:run.completed:{}", delta()),
        format!("{SESSION}:message.delta\nid: 9:{}", delta()),
        format!("someone:message.delta:{}", delta()),
    ];
    for payload in foreign {
        assert!(live(&payload).is_none(), "{payload:?}");
    }
}
