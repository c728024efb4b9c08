//! Events in the document: what a frame of each type holds, and the grammar of a stream.

use baton_core::Code;
use baton_core::events::{Event, EventType, MessageDelta};
use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};

use crate::openapi::examples;
use crate::openapi::operation::{Answer, Operation};
use crate::openapi::schemas::{Components, Described, exact, object, one, page, reference};

const NAME: &str = "Event";

/// How a stream is to be read. Its media type has no schema in OpenAPI: its frames are told here.
pub(super) const STREAM: &str = "\
Server-sent events. First `retry:` with a comment, then frames, each ended by an empty line:

    id: <sequence>
    event: <type>
    data: <one line of JSON: the schema `Event`>

for what is stored, in the order of `sequence`, every event once. Numbers of events that are not the run's are skipped. Frames of
`message.delta` and `reasoning.delta` (the schema `MessageDelta`: text as it is written, never stored and never replayed) have no
`id`. Comments (`: hb`) keep the connection alive. The stream ends after the run's last event, or with `event: stream.closing` or
`event: stream.overflow` (the schema `StreamEnd`, no `id`), after which a client connects again with `Last-Event-ID`; 204 says that
nothing is missing and nothing will come.";

pub(super) fn stream_example() -> Value {
    let event = examples::event();
    format!("retry: 1200\n: open\n\nid: 3\nevent: run.queued\ndata: {event}\n\n").into()
}

/// What is asked of a log, and answered.
pub(super) fn stream_or_pages(operation: Operation, nothing_missing: &str) -> Operation {
    let cursor = json!({"type": "string", "pattern": "^[ \t]*(-1|[0-9]{1,20})?[ \t]*$"});
    operation
        // Without the form of a cursor: a page does not look at it.
        .header(
            "Last-Event-ID",
            &json!({"type": "string"}),
            "Streams only: the last event that the client has. Empty or -1: from the start.",
        )
        .query("last_event_id", &cursor, "Streams only: the same, for a client that cannot set the header, which wins.")
        .query("after", &cursor, "Pages only: the last sequence of the page before.")
        .query(
            "limit",
            &json!({"type": "integer", "minimum": 1, "maximum": i64::MAX, "default": 1_000}),
            "Pages only: events of the page; more than 1,000 are 1,000.",
        )
        .answer(
            Answer::new(200, "The stream. A page where `application/json` is accepted by name and `text/event-stream` is not.")
                .described("text/event-stream", stream(), stream_example())
                .described("application/json", event_page(), examples::page(&examples::event())),
        )
        .answer(Answer::new(204, nothing_missing))
        .plain_error(Code::RateLimited)
        .error(Code::Conflict, "`cursor_ahead`: the cursor is beyond the end of the log. Start anew.")
}

/// A page of a log.
fn event_page() -> Described {
    Described(|components| {
        let event = event(components);
        let cursor = "The last sequence that was looked at, for `after`; null at the head of the log.";
        components.schema("EventPage", page(&event, cursor))
    })
}

/// The text of a stream; the schemas of its frames are among the components.
pub(super) fn stream() -> Described {
    Described(|components| {
        event(components);
        (one::<MessageDelta>().0)(components);
        let end =
            json!({"last_sequence": {"type": "integer", "minimum": 0, "description": "The newest stored event that was sent."}});
        components.schema("StreamEnd", object(&end));
        json!({}) // 3.1 has no schema for the items of a stream, and clients that know better take this for theirs
    })
}

fn event(components: &mut Components) -> Value {
    let mut derived = Vec::new();
    let bodies = Event::schemas(&mut derived);
    components.add_derived(derived);
    let mut mapping = serde_json::Map::new();
    let frames: Vec<Value> = bodies
        .iter()
        .map(|(event_type, body)| {
            let frame = components.schema(&name(*event_type), frame(*event_type, body));
            mapping.insert(event_type.as_str().to_owned(), frame["$ref"].clone());
            frame
        })
        .collect();
    let discriminator = json!({"propertyName": "type", "mapping": mapping});
    components.schema(NAME, json!({"oneOf": frames, "discriminator": discriminator}));
    reference("schemas", NAME)
}

/// The head that every frame has, and the members of the body after it.
fn frame(event_type: EventType, body: &RefOr<Schema>) -> Value {
    let uuid = json!({"type": "string", "format": "uuid"});
    let is_of_a_session = matches!(event_type, EventType::SessionCreated | EventType::SessionClosed);
    let mut frame = object(&json!({
        "run_id": if is_of_a_session { json!({"type": "null"}) } else { uuid.clone() },
        "session_id": uuid,
        "sequence": {"type": "integer", "format": "int64", "minimum": 1, "description": "The event's place in its session; also the frame's `id`."},
        "type": {"const": event_type.as_str()},
        "schema_version": {"type": "integer", "const": 1},
        "created_at": {"type": "string", "format": "date-time"},
    }));
    let body = exact(body);
    if let (Some(frame), Some(body)) = (frame["properties"].as_object_mut(), body["properties"].as_object()) {
        frame.extend(body.clone());
    }
    if let (Some(frame), Some(body)) = (frame["required"].as_array_mut(), body["required"].as_array()) {
        frame.extend(body.iter().cloned());
    }
    frame
}

/// `run.cancel_requested` is `RunCancelRequestedEvent`.
fn name(event_type: EventType) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    event_type.as_str().split(['.', '_']).map(capital).collect::<String>() + NAME
}
