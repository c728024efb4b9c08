//! Server-sent events: how an event looks on the wire. Framed once, shared by every stream.

use std::borrow::Cow;
use std::io::Write;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use time::format_description::well_known::Rfc3339;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::events::event::EventType;
use crate::events::log::StoredEvent;
use crate::notify::DeltaKind;

/// One frame, blank line included. Two variants, so that nobody gives a transient frame an id: a browser moves its last
/// event id on every frame that has one, and would skip stored events when it reconnects.
#[derive(Debug, Clone)]
pub enum Frame {
    /// `event_type` is none for a type of a newer program, which is passed on as it is stored.
    Persisted {
        sequence: i64,
        run_id: Option<Uuid>,
        event_type: Option<EventType>,
        bytes: Bytes,
    },
    Transient {
        run_id: Uuid,
        bytes: Bytes,
    },
}

impl Frame {
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Persisted { bytes, .. } | Self::Transient { bytes, .. } => bytes,
        }
    }

    pub fn run_id(&self) -> Option<Uuid> {
        match self {
            Self::Persisted { run_id, .. } => *run_id,
            Self::Transient { run_id, .. } => Some(*run_id),
        }
    }
}

/// The data of a persisted frame: one line of compact JSON, a fixed head followed by the stored body without its first brace.
pub(crate) fn data(session_id: Uuid, event: &StoredEvent) -> String {
    let mut out = Vec::with_capacity(event.body.len() + HEAD_BYTES);
    write_data(&mut out, session_id, event, &name(event));
    String::from_utf8(out).expect("it is made of text")
}

/// Frames a stored event. Its id is a decimal, its name is letters, and JSON text holds no line end: nothing in a body
/// can forge a field.
pub(crate) fn persisted(session_id: Uuid, event: &StoredEvent) -> Frame {
    let event_type: Option<EventType> = event.event_type.parse().ok();
    let name = event_type.map_or_else(|| name(event), |known| known.as_str().into());
    let mut out = Vec::with_capacity(event.body.len() + HEAD_BYTES);
    write(&mut out, format_args!("id: {}\nevent: {name}\ndata: ", event.sequence));
    write_data(&mut out, session_id, event, &name);
    out.extend_from_slice(b"\n\n");
    Frame::Persisted { sequence: event.sequence, run_id: event.run_id, event_type, bytes: out.into() }
}

/// Room for everything but the body, so that a frame is written in one piece: a replay writes hundreds of thousands a second.
const HEAD_BYTES: usize = 384;

fn write_data(out: &mut Vec<u8>, session_id: Uuid, event: &StoredEvent, name: &str) {
    let mut uuid = Uuid::encode_buffer();
    match &event.run_id {
        Some(run_id) => {
            out.extend_from_slice(b"{\"run_id\":\"");
            out.extend_from_slice(run_id.hyphenated().encode_lower(&mut uuid).as_bytes());
            out.push(b'"');
        }
        None => out.extend_from_slice(b"{\"run_id\":null"),
    }
    out.extend_from_slice(b",\"session_id\":\"");
    out.extend_from_slice(session_id.hyphenated().encode_lower(&mut uuid).as_bytes());
    let (sequence, version) = (event.sequence, event.schema_version);
    write(out, format_args!(r#"","sequence":{sequence},"type":"{name}","schema_version":{version},"created_at":""#));
    event.created_at.format_into(out, &Rfc3339).expect("the database's times have a year of four digits");
    match event.body.strip_prefix('{') {
        Some("}") | None => out.extend_from_slice(b"\"}"),
        Some(rest) => {
            out.extend_from_slice(b"\",");
            out.extend_from_slice(rest.as_bytes());
        }
    }
}

fn write(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory cannot fail");
}

/// The name of the type as stored, which no CHECK guards: only what a name of ours can hold.
fn name(event: &StoredEvent) -> Cow<'static, str> {
    event.event_type.chars().filter(|character| matches!(character, 'a'..='z' | '.' | '_')).collect()
}

/// A piece of what a model says or thinks; never stored, and `offset` shows a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageDelta {
    pub run_id: Uuid,
    pub step: u32,
    pub attempt: u32,
    pub message_index: u32,
    /// UTF-16 code units of the text before.
    pub offset: usize,
    pub text: String,
}

/// A live frame as it came over the wire between processes, with what decides whether it is still news.
#[derive(Debug, Clone)]
pub(crate) struct LiveFrame {
    pub(crate) session_id: Uuid,
    pub(crate) run_id: Uuid,
    /// Later is greater: a higher attempt begins the message again.
    pub(crate) place: (u32, u32, u32),
    pub(crate) frame: Frame,
}

/// Reads a payload `session id:kind:frame`. Nothing comes of one that is not ours.
pub(crate) fn live(payload: &str) -> Option<LiveFrame> {
    let mut parts = payload.splitn(3, ':');
    let session_id: Uuid = parts.next()?.parse().ok()?;
    let kind: DeltaKind = parts.next()?.parse().ok()?;
    let text = parts.next()?;
    let delta: MessageDelta = serde_json::from_str(text).ok()?;
    if text.contains(['\n', '\r']) {
        return None; // any role of the database may notify
    }
    Some(LiveFrame {
        session_id,
        run_id: delta.run_id,
        place: (delta.message_index, delta.step, delta.attempt),
        frame: Frame::Transient { run_id: delta.run_id, bytes: format!("event: {kind}\ndata: {text}\n\n").into() },
    })
}

#[cfg(test)]
mod tests;
