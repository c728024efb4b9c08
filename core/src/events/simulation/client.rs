//! A client that keeps the rules: it resumes after its last event, whatever its stream ended with.

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, poll};
use std::task::Poll;
use uuid::Uuid;

use super::log::{Extent, SESSION, SimulatedLog};
use crate::events::follow::Follow;
use crate::events::{EventStream, Followed, Frame, StreamError};

pub(super) struct Client {
    /// A run; none: the session.
    pub(super) of: Option<Uuid>,
    connection: Connection,
    /// Every stored event that came.
    pub(super) got: Vec<i64>,
    pub(super) is_done: bool,
}

enum Connection {
    Closed,
    Opening(BoxFuture<'static, Followed>),
    Open(EventStream),
}

/// What a turn of a client came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    Opens,
    Waits,
    Got(Vec<i64>),
    /// The connection was cut inside what came; this had arrived.
    Cut(Vec<i64>),
    Overflow,
    Failed,
    /// There will be no more.
    Done,
}

impl Client {
    pub(super) fn new(of: Option<Uuid>) -> Self {
        Self { of, connection: Connection::Closed, got: Vec::new(), is_done: false }
    }

    pub(super) fn cut(&mut self) {
        self.connection = Connection::Closed;
    }

    fn cursor(&self) -> i64 {
        self.got.last().copied().unwrap_or_default()
    }

    /// One step, of which `cut_after` says where in what has come the connection breaks.
    pub(super) async fn turn(&mut self, log: &SimulatedLog, follow: &Follow, cut_after: Option<usize>) -> Turn {
        match &mut self.connection {
            Connection::Closed => {
                self.connection = Connection::Opening(open(log.clone(), follow.clone(), self.of, self.cursor()).boxed());
                Turn::Opens
            }
            Connection::Opening(opening) => match poll!(opening) {
                Poll::Pending => Turn::Waits,
                Poll::Ready(Followed::NothingMissing) => self.done(),
                Poll::Ready(Followed::Stream(stream)) => {
                    self.connection = Connection::Open(stream);
                    Turn::Opens
                }
            },
            Connection::Open(stream) => match poll!(stream.next()) {
                Poll::Pending => Turn::Waits,
                Poll::Ready(Some(Ok(frames))) => self.take(&frames, cut_after),
                Poll::Ready(Some(Err(error))) => {
                    self.cut();
                    if matches!(error, StreamError::Overflow) { Turn::Overflow } else { Turn::Failed }
                }
                Poll::Ready(None) => self.done(),
            },
        }
    }

    fn take(&mut self, frames: &[Frame], cut_after: Option<usize>) -> Turn {
        assert!(!frames.is_empty(), "nothing came");
        let arrived = cut_after.map_or(frames.len(), |cut_after| cut_after.min(frames.len()));
        let stored = frames[..arrived].iter().filter_map(|frame| match frame {
            Frame::Persisted { sequence, .. } => Some(*sequence),
            Frame::Transient { .. } => None,
        });
        let stored: Vec<i64> = stored.collect();
        self.got.extend(&stored);
        if cut_after.is_some() {
            self.cut();
            return Turn::Cut(stored);
        }
        Turn::Got(stored)
    }

    fn done(&mut self) -> Turn {
        self.is_done = true;
        self.cut();
        Turn::Done
    }

    /// # Panics
    /// Unless what came is what there is of it, from its first on: each once, in order.
    pub(super) fn check(&self, log: &SimulatedLog) {
        let stored = log.sequences(self.of);
        assert!(stored.starts_with(&self.got), "of {:?} came {:?}, stored is {stored:?}", self.of, self.got);
        assert!(!self.is_done || self.got == stored, "of {:?} only {:?} came of {stored:?}", self.of, self.got);
    }
}

/// As the services do it.
async fn open(log: SimulatedLog, follow: Follow, of: Option<Uuid>, cursor: i64) -> Followed {
    follow.ready().await;
    let Extent { head, first, last } = log.extent(of).await;
    let cursor = if of.is_some() { cursor.max(first - 1) } else { cursor };
    if last.is_some_and(|last| cursor >= last) {
        return Followed::NothingMissing;
    }
    Followed::Stream(match of {
        Some(run_id) => follow.run(SESSION, run_id, head, cursor),
        None => follow.session(SESSION, head, cursor),
    })
}
