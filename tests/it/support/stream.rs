//! A client of event streams that keeps the rules of clients (resume from the last id; any end of a stream that is not the
//! run's means: resume), and checks that the server keeps its own.

use std::time::Duration;

use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use uuid::Uuid;

use super::http::Http;
use super::wait::DEADLINE;

/// A frame as it came over the wire.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<i64>,
    pub(crate) event: Option<String>,
    pub(crate) data: Option<Value>,
    pub(crate) comment: Option<String>,
    pub(crate) retry: Option<u64>,
}

impl Frame {
    pub(crate) fn event(&self) -> &str {
        self.event.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_end(&self) -> bool {
        matches!(self.event(), "run.completed" | "run.failed" | "run.cancelled")
    }
}

/// The whole frames of these bytes; the rest of an incomplete one is left out.
pub(crate) fn parse_frames(bytes: &[u8]) -> Vec<Frame> {
    let text = String::from_utf8_lossy(bytes);
    let mut frames = Vec::new();
    let mut rest: &str = &text;
    while let Some((frame, after)) = rest.split_once("\n\n") {
        frames.push(parse_frame(frame));
        rest = after;
    }
    frames
}

fn parse_frame(text: &str) -> Frame {
    let mut frame = Frame { id: None, event: None, data: None, comment: None, retry: None };
    for line in text.lines() {
        match line.split_once(':').map(|(field, value)| (field, value.strip_prefix(' ').unwrap_or(value))) {
            Some(("", comment)) => frame.comment = Some(comment.to_owned()),
            Some(("id", id)) => frame.id = Some(id.parse().unwrap()),
            Some(("event", event)) => frame.event = Some(event.to_owned()),
            Some(("data", data)) => frame.data = Some(serde_json::from_str(data).unwrap()),
            Some(("retry", retry)) => frame.retry = Some(retry.parse().unwrap()),
            other => panic!("not a field of ours: {other:?}"),
        }
    }
    frame
}

/// What a stream is of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Watched {
    Run(Uuid),
    Session(Uuid),
}

impl Watched {
    pub(crate) fn path(self) -> String {
        match self {
            Self::Run(id) => format!("/v1/runs/{id}/events"),
            Self::Session(id) => format!("/v1/sessions/{id}/events"),
        }
    }

    fn ends_with(self, frame: &Frame) -> bool {
        match self {
            Self::Run(_) => frame.is_end(),
            Self::Session(_) => frame.event() == "session.closed",
        }
    }
}

/// Follows a run or a session over any number of connections, and keeps what it got.
#[derive(Debug)]
pub(crate) struct Follower {
    http: Http,
    watched: Watched,
    cursor: Option<i64>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) connections: u32,
}

impl Follower {
    pub(crate) fn new(http: &Http, run_id: Uuid) -> Self {
        Self::of(http, Watched::Run(run_id))
    }

    pub(crate) fn of(http: &Http, watched: Watched) -> Self {
        Self { http: http.clone(), watched, cursor: None, frames: Vec::new(), connections: 0 }
    }

    /// To the end, resuming after every cut.
    pub(crate) async fn follow_to_end(&mut self) {
        let followed = tokio::time::timeout(DEADLINE * 4, async { while !self.connect(usize::MAX).await {} });
        followed.await.unwrap_or_else(|_| panic!("{:?} did not end; it has {:#?}", self.watched, self.frames.last()));
    }

    /// One connection, cut after so many bytes. True: there will be no more.
    pub(crate) async fn connect(&mut self, bytes_max: usize) -> bool {
        let mut request = self.http.request(Method::GET, &self.watched.path());
        if let Some(cursor) = self.cursor {
            request = request.header("Last-Event-ID", cursor);
        }
        let response = match request.send().await {
            Ok(response) if response.status() == StatusCode::NO_CONTENT => return true,
            Ok(response) if response.status() == StatusCode::OK => response,
            // Whatever stands between a client and its server: try again, with a pause as a browser makes it.
            Ok(_) | Err(_) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                return false;
            }
        };
        self.connections += 1;
        let mut bytes = Vec::new();
        let mut chunks = response.bytes_stream();
        let mut ended = false;
        let mut taken = 0;
        while let Some(Ok(chunk)) = chunks.next().await {
            bytes.extend_from_slice(&chunk);
            bytes.truncate(bytes_max);
            let frames = parse_frames(&bytes);
            for frame in &frames[taken..] {
                ended |= self.watched.ends_with(frame);
                self.take(frame.clone());
            }
            taken = frames.len();
            if bytes.len() >= bytes_max {
                break;
            }
        }
        ended
    }

    fn take(&mut self, frame: Frame) {
        self.cursor = frame.id.or(self.cursor);
        self.frames.push(frame);
    }

    /// The sequences of what is stored, in the order in which they came.
    pub(crate) fn sequences(&self) -> Vec<i64> {
        self.frames.iter().filter_map(|frame| frame.id).collect()
    }

    pub(crate) fn events(&self) -> Vec<&str> {
        self.frames.iter().filter(|frame| frame.id.is_some()).map(Frame::event).collect()
    }

    /// The text of the last message.
    pub(crate) fn answer(&self) -> String {
        let message = self.frames.iter().rev().find(|frame| frame.event() == "assistant.message.completed");
        message.and_then(|frame| frame.data.as_ref()?["content"][0]["text"].as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// # Panics
    /// Unless every stored event of the run or the session came exactly once, in order, and nothing else.
    pub(crate) async fn assert_exactly_once(&self, pool: &sqlx::PgPool) {
        let (stored, id) = match self.watched {
            Watched::Run(id) => ("SELECT sequence FROM events WHERE run_id = $1 ORDER BY sequence", id),
            Watched::Session(id) => ("SELECT sequence FROM events WHERE session_id = $1 ORDER BY sequence", id),
        };
        let stored: Vec<i64> = sqlx::query_scalar(stored).bind(id).fetch_all(pool).await.unwrap();
        assert_eq!(self.sequences(), stored, "{:?} over {} connections", self.watched, self.connections);
    }
}
