//! One stream: replay, then live, exactly once.
//!
//! A stream is a cursor. It takes what follows the cursor from the ring, or, where the ring has left it behind, a page of the
//! log, or it waits. It watches before it reads, so there is no gap, and drops whatever is at or below its cursor, so there
//! is no duplicate. It asks for "after the cursor", never for the next number.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::error::Error;
use crate::events::event::EventType;
use crate::events::frame::{self, Frame};
use crate::events::hub::{Feed, Hub};
use crate::events::log::Log;
use crate::events::ring::{Following, Position};

/// Frames that are ready together, in order; never empty.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Vec<Frame>, StreamError>> + Send>>;

/// Why a stream breaks off before its end: its client resumes.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("the log is further ahead of the stream than it may be")]
    Overflow,
    #[error(transparent)]
    Failed(#[from] Error),
}

/// The answer to a wish to follow.
pub enum Followed {
    Stream(EventStream),
    /// The run has ended, or the session is closed, and the cursor has its end: there will never be more.
    NothingMissing,
}

impl std::fmt::Debug for Followed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stream(_) => "Stream",
            Self::NothingMissing => "NothingMissing",
        })
    }
}

/// What the streams of a process share.
#[derive(Debug, Clone)]
pub(crate) struct Follow {
    log: Log,
    hub: Hub,
    /// Events that a stream which was up to date may fall behind.
    max_lag: u32,
}

impl Follow {
    pub(crate) fn new(log: Log, hub: Hub, max_lag: u32) -> Self {
        Self { log, hub, max_lag }
    }

    pub(crate) async fn ready(&self) {
        self.hub.ready().await;
    }

    /// The events of one run after a cursor, to the run's end. `head` is the session's newest event at some moment after
    /// `ready`.
    pub(crate) fn run(&self, session_id: Uuid, run_id: Uuid, head: i64, cursor: i64) -> EventStream {
        self.stream(session_id, Wanted::Run(run_id), head, cursor)
    }

    /// The same of a whole session, to its close.
    pub(crate) fn session(&self, session_id: Uuid, head: i64, cursor: i64) -> EventStream {
        self.stream(session_id, Wanted::Session, head, cursor)
    }

    fn stream(&self, session_id: Uuid, wanted: Wanted, head: i64, cursor: i64) -> EventStream {
        let feed = self.hub.watch(session_id, head);
        let follow = self.clone();
        Box::pin(async_stream::try_stream! {
            let mut changes = feed.changes();
            let mut position = Position::at(cursor);
            let mut was_live = false;
            // The page after the one that is being written: a replay reads and writes at the same time.
            let mut ahead = None;
            loop {
                changes.mark_unchanged();
                let (frames, reads_on) = match feed.after(position) {
                    Following::Frames(frames, next) => {
                        was_live = true;
                        position = next;
                        (frames, false)
                    }
                    // Who had the ring and lost it has not been taking frames. One that replays is behind for a reason.
                    Following::Behind if was_live && feed.head() - position.cursor > i64::from(follow.max_lag) => {
                        Err(StreamError::Overflow)?
                    }
                    Following::Behind => {
                        let read_ahead = match ahead.take() {
                            Some((at, reading)) if at == position.cursor => read_ahead(reading).await,
                            _ => None,
                        };
                        let page = match read_ahead {
                            Some(page) => page,
                            None => match follow.page(&feed, position.cursor).await? {
                                Some(page) => page,
                                None => return,
                            },
                        };
                        position = Position::at(newest(&page.frames).unwrap_or(position.cursor));
                        (page.frames, !page.is_last)
                    }
                    Following::Nothing => {
                        if changes.changed().await.is_err() {
                            return; // cannot be: the feed that sends is ours
                        }
                        continue;
                    }
                    // Whoever comes back is told.
                    Following::Gone => return,
                };
                let mut ours: Vec<Frame> = frames.into_iter().filter(|frame| wanted.has(frame)).collect();
                let end = ours.iter().position(|frame| wanted.ends_with(frame));
                if let Some(end) = end {
                    ours.truncate(end + 1);
                } else if reads_on {
                    let reading = tokio::spawn(follow.clone().read(Arc::clone(&feed), position.cursor));
                    ahead = Some((position.cursor, reading));
                }
                if !ours.is_empty() {
                    yield ours;
                }
                if end.is_some() {
                    return;
                }
            }
        })
    }

    /// None: the session was deleted.
    async fn page(&self, feed: &Arc<Feed>, cursor: i64) -> Result<Option<ReplayPage>, Error> {
        let page = self.clone().read(Arc::clone(feed), cursor).await?;
        if !page.frames.is_empty() {
            return Ok(Some(page));
        }
        // The ring says that there is more after the cursor, the log says that there is not.
        let heads = self.log.heads(&[feed.session_id()]).await?;
        if heads.is_empty() { Ok(None) } else { Err(Error::internal("the log ends before the ring begins")) }
    }

    async fn read(self, feed: Arc<Feed>, cursor: i64) -> Result<ReplayPage, Error> {
        let page = self.log.read_after(feed.session_id(), cursor).await?;
        let frames = page.events.iter().map(|event| frame::persisted(feed.session_id(), event)).collect();
        Ok(ReplayPage { frames, is_last: page.is_last })
    }
}

/// A page of the log, framed.
struct ReplayPage {
    frames: Vec<Frame>,
    /// Nothing followed when it was read.
    is_last: bool,
}

/// None: it could not be read, or there was nothing yet. Whoever needs it now reads it now.
async fn read_ahead(reading: JoinHandle<Result<ReplayPage, Error>>) -> Option<ReplayPage> {
    reading.await.ok()?.ok().filter(|page| !page.frames.is_empty())
}

/// What a stream shows of its session.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// Runs of a session never overlap: numbers of others are skipped, which is no gap.
    Run(Uuid),
    Session,
}

impl Wanted {
    fn has(self, frame: &Frame) -> bool {
        match self {
            Self::Run(run_id) => frame.run_id() == Some(run_id),
            Self::Session => true,
        }
    }

    /// Nothing that is wanted comes after it.
    fn ends_with(self, frame: &Frame) -> bool {
        let Frame::Persisted { event_type: Some(event_type), .. } = frame else { return false };
        match self {
            Self::Run(_) => event_type.is_terminal(),
            Self::Session => *event_type == EventType::SessionClosed,
        }
    }
}

fn newest(frames: &[Frame]) -> Option<i64> {
    frames.iter().rev().find_map(|frame| match frame {
        Frame::Persisted { sequence, .. } => Some(*sequence),
        Frame::Transient { .. } => None,
    })
}
