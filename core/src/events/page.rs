//! Pages of the log, for those who cannot follow a stream.

use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::error::Error;
use crate::events::frame;
use crate::events::log::LogPage;

/// A page of the log of a run, or of a session: the data of its frames.
#[derive(Debug, Serialize)]
pub struct EventPage {
    pub items: Vec<Box<RawValue>>,
    /// The last sequence that was looked at, as text; null at the head.
    pub next_cursor: Option<String>,
}

impl EventPage {
    pub(crate) const EMPTY: Self = Self { items: Vec::new(), next_cursor: None };

    /// What of a page is wanted: of one run, or all. Nothing that is wanted comes after `last`.
    pub(crate) fn of(page: &LogPage, session_id: Uuid, run_id: Option<Uuid>, last: i64) -> Result<Self, Error> {
        let wanted = page.events.iter().filter(|event| run_id.is_none() || event.run_id == run_id);
        let items = wanted.map(|event| RawValue::from_string(frame::data(session_id, event)).map_err(Error::internal));
        let next = page.events.last().filter(|newest| !page.is_last && newest.sequence < last);
        Ok(Self { items: items.collect::<Result<_, _>>()?, next_cursor: next.map(|newest| newest.sequence.to_string()) })
    }
}
