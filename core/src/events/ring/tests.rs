use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

const RUN: Uuid = Uuid::from_u128(1);
const OTHER_RUN: Uuid = Uuid::from_u128(2);

/// Large enough that a few fill the ring, and shared, so that ten thousand rings cost nothing.
static LARGE: [u8; Size::USUAL.kept / 5] = [b'x'; Size::USUAL.kept / 5];

fn stored_as(sequence: i64, run_id: Uuid, event_type: EventType, bytes: Bytes) -> Frame {
    Frame::Persisted { sequence, run_id: Some(run_id), event_type: Some(event_type), bytes }
}

fn stored(sequence: i64) -> Frame {
    stored_as(sequence, RUN, EventType::RunStarted, Bytes::from_static(b"stored"))
}

fn large(sequence: i64) -> Frame {
    stored_as(sequence, RUN, EventType::RunStarted, Bytes::from_static(&LARGE))
}

/// A delta of a message; its bytes are its name.
fn live(run_id: Uuid, (message, attempt): (u32, u32), name: &str) -> LiveFrame {
    let bytes = Bytes::copy_from_slice(name.as_bytes());
    LiveFrame {
        session_id: Uuid::nil(),
        run_id,
        place: (message, message + 1, attempt),
        frame: Frame::Transient { run_id, bytes },
    }
}

/// What a frame is called: a sequence, or the name of a delta.
fn name(frame: &Frame) -> String {
    match frame {
        Frame::Persisted { sequence, .. } => sequence.to_string(),
        Frame::Transient { bytes, .. } => String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

/// Everything that the ring has for a stream; the stream moves on.
fn take(ring: &Ring, position: &mut Position) -> Vec<String> {
    let mut taken = Vec::new();
    loop {
        match ring.after(*position) {
            Following::Frames(frames, next) => {
                assert!(!frames.is_empty());
                taken.extend(frames.iter().map(name));
                *position = next;
            }
            Following::Nothing => return taken,
            other => panic!("{other:?} at {position:?}"),
        }
    }
}

/// The ring has nothing for this stream and sends it to the log.
fn is_behind(ring: &Ring, cursor: i64) -> bool {
    matches!(ring.after(Position::at(cursor)), Following::Behind)
}

#[test]
fn a_stream_takes_what_follows_its_cursor_once() {
    let mut ring = Ring::above(3, Size::USUAL);
    ring.push_persisted(stored(4), None);
    ring.push_persisted(stored(5), None);
    let mut position = Position::at(4);
    assert_eq!(take(&ring, &mut position), ["5"]);
    assert_eq!(position.cursor, 5);
    assert!(take(&ring, &mut position).is_empty());
    ring.push_persisted(stored(6), None);
    assert_eq!(take(&ring, &mut position), ["6"]);
}

#[test]
fn what_was_read_before_is_dropped() {
    let mut ring = Ring::above(3, Size::USUAL);
    for sequence in [2, 3, 4, 4, 3, 5, 1] {
        ring.push_persisted(stored(sequence), None);
    }
    assert_eq!((take(&ring, &mut Position::at(3)), ring.head()), (vec!["4".to_owned(), "5".to_owned()], 5));
}

#[test]
fn a_cursor_below_the_ring_reads_the_log() {
    let ring = Ring::above(3, Size::USUAL);
    assert!(is_behind(&ring, 0) && is_behind(&ring, 2));
    assert!(!is_behind(&ring, 3));
}

#[test]
fn an_overrun_leaves_slow_streams_behind_and_no_other() {
    let mut ring = Ring::above(0, Size::USUAL);
    let mut fast = Position::at(0);
    let mut slow = Position::at(0);
    ring.push_persisted(large(1), None);
    assert_eq!(take(&ring, &mut slow), ["1"]);
    for sequence in 2..=12 {
        ring.push_persisted(large(sequence), None);
        take(&ring, &mut fast);
    }
    assert!(ring.bytes <= Size::USUAL.kept);
    assert_eq!(fast.cursor, 12);
    assert!(matches!(ring.after(slow), Following::Behind));
    assert!(take(&ring, &mut fast).is_empty());
    // What it has now read from the log reaches into the ring.
    assert_eq!(take(&ring, &mut Position::at(9)), ["10", "11", "12"]);
}

/// The place of a stream is gone, but nothing stored that it has not had.
#[test]
fn an_overrun_by_live_frames_leaves_nobody_behind() {
    let mut ring = Ring::above(0, Size::USUAL);
    let mut position = Position::at(0);
    ring.push_persisted(stored(1), None);
    assert_eq!(take(&ring, &mut position), ["1"]);
    let mut large = live(RUN, (0, 1), "");
    large.frame = Frame::Transient { run_id: RUN, bytes: Bytes::from_static(&LARGE) };
    for _ in 0..12 {
        ring.push_live(large.clone());
    }
    ring.push_persisted(stored(2), None);
    assert!(position.next.is_some_and(|next| next < ring.first), "the test means an overrun");
    assert_eq!(take(&ring, &mut position).iter().filter(|name| name.len() == 1).collect::<Vec<_>>(), ["2"]);
}

#[test]
fn a_chunk_is_bounded_and_the_rest_follows() {
    const KILOBYTE: [u8; 1024] = [b'x'; 1024];
    let mut ring = Ring::above(0, Size::USUAL);
    for sequence in 1..=200 {
        ring.push_persisted(stored_as(sequence, RUN, EventType::RunStarted, Bytes::from_static(&KILOBYTE)), None);
    }
    let Following::Frames(first, _) = ring.after(Position::at(0)) else { panic!("there are frames") };
    assert_eq!(first.len() * KILOBYTE.len(), Size::USUAL.chunk);
    assert_eq!(take(&ring, &mut Position::at(0)).len(), 200);
}

#[test]
fn deltas_of_a_completed_message_are_old_news() {
    let mut ring = Ring::above(0, Size::USUAL);
    ring.push_live(live(RUN, (0, 1), "a"));
    ring.push_persisted(stored(1), Some(0));
    ring.push_live(live(RUN, (0, 1), "late"));
    ring.push_live(live(RUN, (1, 1), "b"));
    ring.push_live(live(OTHER_RUN, (0, 1), "c"));
    assert_eq!(take(&ring, &mut Position::at(0)), ["a", "1", "b", "c"]);
}

#[test]
fn a_run_that_has_ended_says_nothing_more() {
    let mut ring = Ring::above(0, Size::USUAL);
    ring.push_persisted(stored_as(1, RUN, EventType::RunCompleted, Bytes::new()), None);
    ring.push_live(live(RUN, (9, 1), "late"));
    ring.push_live(live(OTHER_RUN, (0, 1), "a"));
    assert_eq!(take(&ring, &mut Position::at(0)), ["1", "a"]);
}

#[test]
fn a_later_attempt_silences_the_one_before() {
    let mut ring = Ring::above(0, Size::USUAL);
    ring.push_live(live(RUN, (0, 1), "one"));
    ring.push_live(live(RUN, (0, 2), "two"));
    ring.push_live(live(RUN, (0, 1), "late"));
    ring.push_live(live(RUN, (0, 2), "more"));
    ring.push_live(live(OTHER_RUN, (0, 1), "other"));
    assert_eq!(take(&ring, &mut Position::at(0)), ["one", "two", "more", "other"]);
}

#[test]
fn who_joins_in_the_middle_gets_the_live_frames_since_its_cursor() {
    let mut ring = Ring::above(0, Size::USUAL);
    ring.push_persisted(stored(1), None);
    ring.push_live(live(RUN, (0, 1), "old"));
    ring.push_persisted(stored(2), None);
    ring.push_live(live(RUN, (1, 1), "a"));
    ring.push_live(live(RUN, (1, 1), "b"));
    let mut position = Position::at(2);
    assert_eq!(take(&ring, &mut position), ["a", "b"]);
    ring.push_live(live(RUN, (1, 1), "c"));
    ring.push_persisted(stored(3), Some(1));
    assert_eq!(take(&ring, &mut position), ["c", "3"]);
}

/// The log can be read beyond the ring. The ring's live frames are then older than what the stream has.
#[test]
fn who_is_ahead_of_the_ring_waits_for_it() {
    let mut ring = Ring::above(1, Size::USUAL);
    ring.push_live(live(RUN, (0, 1), "a"));
    let mut position = Position::at(2); // which completes the message, and which the ring has not read
    assert!(take(&ring, &mut position).is_empty());
    ring.push_persisted(stored(2), Some(0));
    ring.push_live(live(RUN, (1, 1), "b"));
    assert_eq!(take(&ring, &mut position), ["b"]);
}

/// A stream as the model sees it.
struct Reader {
    position: Position,
    began: i64,
    got: Vec<Got>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Got {
    Stored(i64),
    /// A delta of this message: its number.
    Live {
        message: u32,
        number: u64,
    },
}

/// A log that grows, a ring that reads it late, deltas that arrive late, and streams that come and read at any time.
struct Model {
    random: StdRng,
    ring: Ring,
    /// Sequence n is at n - 1: the message that it completes.
    log: Vec<Option<u32>>,
    /// The message that the model of this model is writing.
    message: u32,
    deltas: u64,
    on_their_way: VecDeque<LiveFrame>,
    readers: Vec<Reader>,
}

impl Model {
    fn new(seed: u64) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            ring: Ring::above(0, Size::USUAL),
            log: Vec::new(),
            message: 0,
            deltas: 0,
            on_their_way: VecDeque::new(),
            readers: Vec::new(),
        }
    }

    fn step(&mut self) {
        match self.random.random_range(0..10) {
            0 | 1 => self.commit(),
            2 | 3 => self.say(),
            4 => self.hear(),
            5 | 6 => self.read(),
            7 => self.join(),
            _ => self.take_with_anyone(),
        }
    }

    fn commit(&mut self) {
        let completes = self.random.random_bool(0.3).then_some(self.message);
        self.message += u32::from(completes.is_some());
        self.log.push(completes);
    }

    fn say(&mut self) {
        self.deltas += 1;
        self.on_their_way.push_back(live(RUN, (self.message, 1), &format!("{}:{}", self.message, self.deltas)));
    }

    fn hear(&mut self) {
        let arrived = self.random.random_range(0..=self.on_their_way.len());
        self.on_their_way.drain(..arrived).for_each(|live| self.ring.push_live(live));
    }

    /// The ring's reader, a page at a time, sometimes with what it has.
    fn read(&mut self) {
        let head = usize::try_from(self.ring.head()).unwrap();
        let from = head.saturating_sub(self.random.random_range(0..2));
        let to = self.random.random_range(head..=self.log.len());
        for (index, completes) in self.log.iter().enumerate().take(to).skip(from) {
            let bytes = if self.random.random_bool(0.5) { Bytes::from_static(&LARGE) } else { Bytes::new() };
            let sequence = i64::try_from(index).unwrap() + 1;
            self.ring.push_persisted(stored_as(sequence, RUN, EventType::RunStarted, bytes), *completes);
        }
    }

    fn join(&mut self) {
        let began = self.random.random_range(0..=i64::try_from(self.log.len()).unwrap());
        self.readers.push(Reader { position: Position::at(began), began, got: Vec::new() });
    }

    fn take_with_anyone(&mut self) {
        if !self.readers.is_empty() {
            let index = self.random.random_range(0..self.readers.len());
            self.take(index);
        }
    }

    /// One round of a stream, as `Follow` makes it. False: it has to wait.
    fn take(&mut self, index: usize) -> bool {
        let reader = &mut self.readers[index];
        match self.ring.after(reader.position) {
            Following::Frames(frames, next) => {
                reader.position = next;
                reader.got.extend(frames.iter().map(|frame| match frame {
                    Frame::Persisted { sequence, .. } => Got::Stored(*sequence),
                    Frame::Transient { .. } => {
                        let name = name(frame);
                        let (message, number) = name.split_once(':').unwrap();
                        Got::Live { message: message.parse().unwrap(), number: number.parse().unwrap() }
                    }
                }));
                true
            }
            Following::Behind => {
                let cursor = reader.position.cursor;
                let there = i64::try_from(self.log.len()).unwrap() - cursor;
                assert!(there > 0, "the ring sent a stream to a log that has nothing for it");
                let newest = cursor + self.random.random_range(1..=there);
                reader.got.extend((cursor + 1..=newest).map(Got::Stored));
                reader.position = Position::at(newest);
                true
            }
            Following::Nothing => false,
            Following::Gone => panic!("nobody has deleted the session"),
        }
    }

    /// Everything arrives and is read, and then every stream has had everything once.
    fn finish(mut self) {
        let waiting: Vec<LiveFrame> = self.on_their_way.drain(..).collect();
        waiting.into_iter().for_each(|live| self.ring.push_live(live));
        let head = i64::try_from(self.log.len()).unwrap();
        for sequence in self.ring.head() + 1..=head {
            self.ring.push_persisted(stored(sequence), self.log[usize::try_from(sequence).unwrap() - 1]);
        }
        for index in 0..self.readers.len() {
            while self.take(index) {}
            self.check(&self.readers[index], head);
        }
    }

    fn check(&self, reader: &Reader, head: i64) {
        let complete_at = |sequence: i64| {
            let until = &self.log[..usize::try_from(sequence).unwrap()];
            until.iter().rev().find_map(|completes| *completes).map_or(0, |message| message + 1)
        };
        let (mut sequence, mut heard) = (reader.began, 0);
        for got in &reader.got {
            match *got {
                Got::Stored(next) => {
                    assert_eq!(next, sequence + 1, "began after {}: {:?}", reader.began, reader.got);
                    sequence = next;
                }
                Got::Live { message, number } => {
                    assert!(number > heard, "twice or out of order: {:?}", reader.got);
                    assert!(message >= complete_at(sequence), "of a message that was complete: {:?}", reader.got);
                    heard = number;
                }
            }
        }
        assert_eq!(sequence, head, "began after {}: {:?}", reader.began, reader.got);
    }
}

#[test]
fn every_schedule_brings_every_event_once() {
    for seed in 0..10_000 {
        let mut model = Model::new(seed);
        for _ in 0..60 {
            model.step();
        }
        model.finish();
    }
}
