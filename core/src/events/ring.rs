//! The newest frames of one session, in the order in which this process learned of them; shared by all its streams.
//!
//! A stream is a cursor over it, not a queue behind it: nothing is copied for a stream, and a slow one holds nothing up.

use std::collections::{HashMap, VecDeque};

use uuid::Uuid;

use crate::events::event::EventType;
use crate::events::frame::{Frame, LiveFrame};

/// How much a ring holds, in bytes of frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// Kept. What is older is read from the log.
    pub(super) kept: usize,
    /// Handed to a stream at once: what one write to a socket may hold.
    pub(super) chunk: usize,
}

impl Size {
    pub(super) const USUAL: Self = Self { kept: 1024 * 1024, chunk: 64 * 1024 };
}

#[derive(Debug)]
pub(super) struct Ring {
    size: Size,
    frames: VecDeque<Frame>,
    /// Position of the first frame in `frames`; positions only grow.
    first: u64,
    bytes: usize,
    /// Every stored event after this one, up to the head, is in `frames`.
    floor: i64,
    /// The newest stored event that this process has read: the watermark.
    head: i64,
    /// Per run, up to where its live frames are old news.
    live: HashMap<Uuid, LiveWatermark>,
    /// The session was deleted: nothing follows any position.
    is_gone: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LiveWatermark {
    place: (u32, u32, u32),
    /// Messages below this index are complete.
    completed: u32,
}

/// Where a stream stands: the newest stored event that it has, and the place in the ring, once it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) cursor: i64,
    next: Option<u64>,
}

impl Position {
    pub(super) fn at(cursor: i64) -> Self {
        Self { cursor, next: None }
    }
}

/// What follows a position.
#[derive(Debug)]
pub(super) enum Following {
    Frames(Vec<Frame>, Position),
    /// Older than the ring: read a page of the log.
    Behind,
    Nothing,
    /// There is no such session any more.
    Gone,
}

impl Ring {
    /// Empty, above what the log held when it was made.
    pub(super) fn above(head: i64, size: Size) -> Self {
        Self { size, frames: VecDeque::new(), first: 0, bytes: 0, floor: head, head, live: HashMap::new(), is_gone: false }
    }

    /// The session was deleted; so is what is kept of it.
    pub(super) fn end(&mut self) {
        self.is_gone = true;
        self.frames.clear();
        self.live.clear();
        self.bytes = 0;
    }

    pub(super) fn head(&self) -> i64 {
        self.head
    }

    /// Takes the next stored event; one that is here already is dropped. `completed_message` is the index of the message that
    /// this event completes.
    pub(super) fn push_persisted(&mut self, frame: Frame, completed_message: Option<u32>) {
        let Frame::Persisted { sequence, run_id, event_type, .. } = &frame else { return };
        if *sequence <= self.head {
            return;
        }
        self.head = *sequence;
        if let Some(run_id) = run_id {
            if event_type.is_some_and(EventType::is_terminal) {
                // Whatever arrives late of this run is old news, and there is no run after it that could be mistaken for it.
                self.live.insert(*run_id, LiveWatermark { completed: u32::MAX, ..LiveWatermark::default() });
            } else if let Some(index) = completed_message {
                self.live.entry(*run_id).or_default().completed = index.saturating_add(1);
            }
        }
        self.push(frame);
    }

    /// Takes a live frame, unless its message is complete or a later attempt has begun.
    pub(super) fn push_live(&mut self, live: LiveFrame) {
        let watermark = self.live.entry(live.run_id).or_default();
        if live.place.0 < watermark.completed || live.place < watermark.place {
            return;
        }
        watermark.place = live.place;
        self.push(live.frame);
    }

    /// What a stream at this position has not had yet.
    pub(super) fn after(&self, position: Position) -> Following {
        if self.is_gone {
            return Following::Gone;
        }
        let next = match position.next {
            Some(next) if next >= self.first => next,
            // Its place is gone: stored events may be, too. A stream without a place gets the live frames since its cursor.
            _ if position.cursor < self.floor => return Following::Behind,
            // The log was read beyond the ring, whose live frames may belong to messages that this stream has whole.
            _ if position.cursor > self.head => return Following::Nothing,
            _ => self.place_after(position.cursor),
        };
        let mut frames = Vec::new();
        let (mut cursor, mut bytes, mut end) = (position.cursor, 0, next);
        let skip = usize::try_from(next - self.first).unwrap_or(usize::MAX);
        for frame in self.frames.iter().skip(skip) {
            if bytes >= self.size.chunk {
                break;
            }
            end += 1;
            if let Frame::Persisted { sequence, .. } = frame {
                if *sequence <= cursor {
                    continue;
                }
                cursor = *sequence;
            }
            bytes += frame.bytes().len();
            frames.push(frame.clone());
        }
        if frames.is_empty() { Following::Nothing } else { Following::Frames(frames, Position { cursor, next: Some(end) }) }
    }

    /// The place behind the newest stored event that is not after the cursor.
    fn place_after(&self, cursor: i64) -> u64 {
        let had = self.frames.iter().rposition(|frame| matches!(frame, Frame::Persisted { sequence, .. } if *sequence <= cursor));
        self.first + had.map_or(0, |index| index as u64 + 1)
    }

    fn push(&mut self, frame: Frame) {
        self.bytes += frame.bytes().len();
        self.frames.push_back(frame);
        while self.bytes > self.size.kept {
            let Some(old) = self.frames.pop_front() else { break };
            self.first += 1;
            self.bytes -= old.bytes().len();
            if let Frame::Persisted { sequence, .. } = old {
                self.floor = sequence;
            }
        }
    }
}

#[cfg(test)]
mod tests;
