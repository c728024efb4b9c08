//! An answer as its bytes come, in whatever pieces. Knows no format but what all have in common: events whose data is JSON, or
//! where a server does not stream, one JSON document.

use serde_json::Value;

use crate::models::outgoing::Outgoing;
use crate::models::sse::Decoder;
use crate::models::{Completion, Failure, ModelError, ModelEvent, json, transport};

/// Bytes of a whole answer. Each token takes some hundred as an event, and answers have at most some ten thousand.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of an answer that is one document.
const DOCUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Where the formats have the provider's name for the call.
const REQUEST_IDS: [&str; 3] = ["/message/id", "/response/id", "/id"];

/// Data that ends a stream of the OpenAI family. Anybody may send it.
const DONE: &str = "[DONE]";

/// Understands the messages of one format.
pub(super) trait Reader: Send {
    /// Takes one message, or a whole answer in one document.
    fn take(&mut self, message: &Value, out: &mut Outgoing) -> Result<Progress, ModelError>;

    /// The server says that nothing more comes.
    fn take_done(&mut self, _: &Outgoing) {}

    /// Whether the model has said why it stopped: little more can come.
    fn has_stopped(&self) -> bool;

    /// The end, if the model has come to one. None: the stream broke off.
    fn finish(&mut self, out: &mut Outgoing) -> Result<Option<Completion>, ModelError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// What may follow is of no interest.
    Over,
}

/// What an answer turned out to be.
enum Form {
    /// Only white space so far.
    Unknown,
    Events(Decoder),
    Document(Vec<u8>),
}

pub(super) struct Reading {
    form: Form,
    reader: Box<dyn Reader>,
    out: Outgoing,
    request_id: Option<String>,
    bytes: usize,
    is_over: bool,
}

impl Reading {
    pub(super) fn new(reader: Box<dyn Reader>, out: Outgoing, request_id: Option<String>) -> Self {
        Self { form: Form::Unknown, reader, out, request_id, bytes: 0, is_over: false }
    }

    /// Whether the last event has been given out.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.reader.has_stopped()
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<ModelEvent> {
        let mut events = Vec::new();
        if let Err(error) = self.read(bytes, &mut events) {
            self.fail(error, &mut events);
        }
        events
    }

    /// No more bytes come: the stream is over, broken or silent. What was complete before is an answer whatever came of the rest.
    pub(super) fn end(&mut self) -> Vec<ModelEvent> {
        let mut events = Vec::new();
        let rest = match &mut self.form {
            Form::Unknown => None,
            Form::Events(decoder) => decoder.finish().ok().flatten(),
            Form::Document(bytes) => String::from_utf8(std::mem::take(bytes)).ok(),
        };
        // A rest that is no message was cut off, which the missing end says already.
        let message = rest.as_deref().and_then(json::parse);
        let taken = message.map_or(Ok(()), |message| self.take(&message, &mut events));
        if let Err(error) = taken.and_then(|()| self.complete(&mut events)) {
            self.fail(error, &mut events);
        }
        events
    }

    fn read(&mut self, mut bytes: &[u8], events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.bytes += bytes.len();
        if self.bytes > ANSWER_BYTES_MAX {
            return Err(ModelError::Protocol);
        }
        if matches!(self.form, Form::Unknown) {
            bytes = bytes.trim_ascii_start();
            self.form = match bytes.first() {
                None => return Ok(()),
                Some(b'<') => return Err(ModelError::Protocol), // a page for people
                Some(b'{' | b'[') => Form::Document(Vec::new()),
                Some(_) => Form::Events(Decoder::default()),
            };
        }
        match &mut self.form {
            Form::Unknown => Ok(()),
            Form::Document(document) if document.len() + bytes.len() > DOCUMENT_BYTES_MAX => Err(ModelError::Protocol),
            Form::Document(document) => {
                document.extend_from_slice(bytes);
                Ok(())
            }
            Form::Events(decoder) => {
                let mut data = Vec::new();
                let read = decoder.push(bytes, &mut data);
                for data in data.iter().map(|data| data.trim()).filter(|data| !data.is_empty()) {
                    if self.is_over {
                        return Ok(());
                    }
                    if data == DONE {
                        self.reader.take_done(&self.out);
                        return self.complete(events);
                    }
                    self.take(&json::parse(data).ok_or(ModelError::Protocol)?, events)?;
                }
                if self.is_over { Ok(()) } else { read.map_err(|_| ModelError::Protocol) }
            }
        }
    }

    fn take(&mut self, message: &Value, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.request_id.is_none() {
            let mut ids = REQUEST_IDS.iter().filter_map(|place| message.pointer(place)?.as_str());
            self.request_id = ids.find_map(transport::plausible_id);
        }
        let progress = self.reader.take(message, &mut self.out)?;
        events.extend(self.out.take_ready()?);
        if progress == Progress::Over { self.complete(events) } else { Ok(()) }
    }

    fn complete(&mut self, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.is_over {
            return Ok(());
        }
        let completion = self.reader.finish(&mut self.out)?.ok_or(ModelError::Transient)?;
        events.extend(self.out.take_rest()?);
        events.push(ModelEvent::Completed(Completion { request_id: self.request_id.take(), ..completion }));
        self.is_over = true;
        Ok(())
    }

    fn fail(&mut self, error: ModelError, events: &mut Vec<ModelEvent>) {
        self.is_over = true;
        events.push(ModelEvent::Failed(Failure { request_id: self.request_id.take(), ..error.into() }));
    }
}
