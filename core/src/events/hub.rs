//! From the log to its watchers in this process: one listener, and per watched session one reader and one ring.
//!
//! A wake-up costs one query per session and process, however many streams watch. Losing every wake-up costs latency: a
//! coalesced poll finds what they would have told.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sqlx::PgPool;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use crate::db;
use crate::error::chain;
use crate::events::event::{Event, EventType};
use crate::events::frame;
use crate::events::log::{Log, StoredEvent};
use crate::events::ring::{Following, Position, Ring, Size};
use crate::notify::{Channel, Heard, Listener, Ways};

/// One query for all watched sessions, so often: the latency of an event whose wake-up was lost.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for the answer to a read, pool and connection included: a dead connection must not silence a session.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Wait after a read that the database did not answer.
const READ_RETRY_WAIT: Duration = Duration::from_millis(250);

/// Longest wait for the first LISTEN before streams run on the poll alone.
const FIRST_LISTEN_WAIT: Duration = Duration::from_secs(2);

/// Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Hub {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    log: Log,
    ring: Size,
    feeds: Mutex<HashMap<Uuid, Weak<Feed>>>,
    /// LISTEN has been confirmed once, or there is none to wait for.
    ready: watch::Sender<bool>,
}

/// A watched session.
#[derive(Debug)]
pub(super) struct Feed {
    session_id: Uuid,
    hub: Weak<Shared>,
    ring: Mutex<Ring>,
    /// There may be something new to read.
    wake: Arc<Notify>,
    /// Counts the changes of the ring; streams wait on it.
    changed: watch::Sender<u64>,
}

impl Hub {
    /// Starts listening, where there is something to listen with, and polling. Ends when the last clone is gone.
    pub fn start(pool: PgPool, ways: Option<Ways>) -> Self {
        let hub = Self::new(Log::Database(pool), Size::USUAL);
        tokio::spawn(poll(Arc::downgrade(&hub.shared)));
        match ways {
            Some(ways) => {
                let listener = Listener::new(ways, &[Channel::Events, Channel::Live]);
                tokio::spawn(hear(Arc::downgrade(&hub.shared), listener));
            }
            None => hub.set_ready(),
        }
        hub
    }

    /// Hears and polls nothing by itself.
    pub(super) fn new(log: Log, ring: Size) -> Self {
        Self { shared: Arc::new(Shared { log, ring, feeds: Mutex::default(), ready: watch::channel(false).0 }) }
    }

    pub(super) fn set_ready(&self) {
        self.shared.ready.send_replace(true);
    }

    /// The hub is LISTENing before any read is allowed: what is committed after the read is heard of, or found by the poll.
    pub(super) async fn ready(&self) {
        let mut ready = self.shared.ready.subscribe();
        let _ = tokio::time::timeout(FIRST_LISTEN_WAIT, ready.wait_for(|ready| *ready)).await;
    }

    /// Watches a session whose newest event was `head` at some moment after `ready`.
    pub(super) fn watch(&self, session_id: Uuid, head: i64) -> Arc<Feed> {
        let mut feeds = self.shared.feeds();
        if let Some(feed) = feeds.get(&session_id).and_then(Weak::upgrade) {
            return feed;
        }
        let wake = Arc::new(Notify::new());
        let feed = Arc::new(Feed {
            session_id,
            hub: Arc::downgrade(&self.shared),
            ring: Mutex::new(Ring::above(head, self.shared.ring)),
            wake: Arc::clone(&wake),
            changed: watch::channel(0).0,
        });
        feeds.insert(session_id, Arc::downgrade(&feed));
        tokio::spawn(read_when_woken(Arc::downgrade(&feed), Arc::clone(&wake), self.shared.log.clone()));
        wake.notify_one(); // what came between the head and this registration was announced to nobody
        feed
    }

    /// What to do about something that was heard.
    pub(super) fn take(&self, heard: Heard) {
        match heard {
            Heard::Listening => {
                self.set_ready();
                // Whatever was committed while nobody listened: every ring reads on from its watermark.
                for feed in self.shared.watched() {
                    feed.wake.notify_one();
                }
            }
            Heard::Lost => tracing::warn!("the listening connection is gone; polling until it is back"),
            Heard::Hint { channel, payload } => self.shared.take_hint(channel, &payload),
        }
    }

    /// Looks for what no wake-up has told, of all watched sessions at once.
    pub(super) async fn poll(&self) {
        let watched: Vec<Uuid> = self.shared.feeds().keys().copied().collect();
        if watched.is_empty() {
            return;
        }
        match db::answered(READ_TIMEOUT, self.shared.log.heads(&watched)).await {
            Ok(heads) => {
                // Whatever is watched was there when its first watcher came, which was before this query.
                let there: HashSet<Uuid> = heads.iter().map(|(session_id, _)| *session_id).collect();
                let deleted = watched.iter().filter(|session_id| !there.contains(session_id));
                deleted.filter_map(|session_id| self.shared.feed(*session_id)).for_each(|feed| feed.end());
                for (session_id, sequence) in heads {
                    if let Some(feed) = self.shared.feed(session_id) {
                        feed.expect_sequence(sequence);
                    }
                }
            }
            Err(error) => tracing::debug!(error = chain(&error), "the poll was not answered"),
        }
    }
}

impl Shared {
    fn feeds(&self) -> MutexGuard<'_, HashMap<Uuid, Weak<Feed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> Vec<Arc<Feed>> {
        self.feeds().values().filter_map(Weak::upgrade).collect()
    }

    fn feed(&self, session_id: Uuid) -> Option<Arc<Feed>> {
        self.feeds().get(&session_id).and_then(Weak::upgrade)
    }

    fn take_hint(&self, channel: Channel, payload: &str) {
        match channel {
            Channel::Events => {
                let Some((session_id, sequence)) = payload.split_once(':') else { return };
                let (Ok(session_id), Ok(sequence)) = (session_id.parse(), sequence.parse::<i64>()) else { return };
                if let Some(feed) = self.feed(session_id) {
                    feed.expect_sequence(sequence);
                }
            }
            Channel::Live => {
                let Some(live) = frame::live(payload) else { return };
                if let Some(feed) = self.feed(live.session_id) {
                    feed.change(|ring| ring.push_live(live));
                }
            }
            Channel::Queue | Channel::Control => {}
        }
    }
}

impl Feed {
    pub(super) fn session_id(&self) -> Uuid {
        self.session_id
    }

    pub(super) fn after(&self, position: Position) -> Following {
        self.ring().after(position)
    }

    /// The newest stored event that this process has read.
    pub(super) fn head(&self) -> i64 {
        self.ring().head()
    }

    /// Notices every change of the ring from now on.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Ring)) {
        change(&mut self.ring());
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The session was deleted: its streams end.
    pub(super) fn end(&self) {
        self.change(Ring::end);
    }

    fn expect_sequence(&self, sequence: i64) {
        if sequence > self.ring().head() {
            self.wake.notify_one();
        }
    }

    /// Reads what follows the watermark into the ring; one page after the other until there is no more.
    async fn read(&self, log: &Log) -> Result<(), sqlx::Error> {
        loop {
            let head = self.ring().head();
            let page = db::answered(READ_TIMEOUT, log.read_after(self.session_id, head)).await?;
            if !page.events.is_empty() {
                self.change(|ring| {
                    for event in &page.events {
                        ring.push_persisted(frame::persisted(self.session_id, event), completed_message(event));
                    }
                });
            }
            if page.is_last {
                return Ok(());
            }
        }
    }
}

/// The index of the message that this event completes.
fn completed_message(event: &StoredEvent) -> Option<u32> {
    if event.event_type != EventType::AssistantMessageCompleted.as_str() {
        return None; // decoding every body would cost more than all the rest of this path
    }
    match event.decode() {
        Ok(Event::AssistantMessageCompleted(message)) => Some(message.message_index),
        _ => None,
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.wake.notify_one(); // the reader finds nobody and ends
        let Some(hub) = self.hub.upgrade() else { return };
        let mut feeds = hub.feeds();
        // Somebody may have begun to watch the session again.
        if feeds.get(&self.session_id).is_some_and(|feed| feed.strong_count() == 0) {
            feeds.remove(&self.session_id);
        }
    }
}

async fn read_when_woken(feed: Weak<Feed>, wake: Arc<Notify>, log: Log) {
    loop {
        wake.notified().await;
        let Some(feed) = feed.upgrade() else { return };
        if let Err(error) = feed.read(&log).await {
            tracing::warn!(error = chain(&error), "the log was not readable; trying again");
            wake.notify_one();
            drop(feed);
            tokio::time::sleep(READ_RETRY_WAIT).await;
        }
    }
}

async fn hear(hub: Weak<Shared>, mut listener: Listener) {
    loop {
        let heard = listener.next().await;
        let Some(shared) = hub.upgrade() else { return };
        Hub { shared }.take(heard);
    }
}

async fn poll(hub: Weak<Shared>) {
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(shared) = hub.upgrade() else { return };
        Hub { shared }.poll().await;
    }
}
