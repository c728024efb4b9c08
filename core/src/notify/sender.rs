//! Sending hints: whatever is ready goes in one statement, on a connection of its own.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use crate::db::{self, OwnConnections};
use crate::error::chain;
use crate::notify::live::{Delta, LiveBuffer};
use crate::notify::{Channel, PAYLOAD_BYTES_MAX};

/// Hints that may wait for the connection; beyond it they are dropped, and polling finds what they would have told.
const WAITING_MAX: usize = 8_192;

/// Hints of one statement, and messages that are taken before anybody looks whether it is time to send.
const BATCH_MAX: usize = 1_024;

/// Deltas leave at most this often: fast enough to read along, a thirtieth of the statements that single tokens would cost.
const LIVE_INTERVAL: Duration = Duration::from_millis(30);

/// Hints leave so often where there is much to tell: each statement takes a lock that all of the database share.
const HINT_INTERVAL: Duration = Duration::from_millis(2);

/// And at once where there was silence: what one run has to tell, from its submission to its end, waits for nothing.
const HINT_BURST: u32 = 8;

/// Hints that nobody waits for leave so much later, or with the next that somebody does.
const SOON: Duration = Duration::from_millis(2);

/// Longest wait until hints are sent, connecting included; then the connection is given up.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Wait after a failed connection: hints of a second are worth less than a hot loop costs.
const RECONNECT_WAIT: Duration = Duration::from_secs(1);

/// Something that somebody may want to look at.
#[derive(Debug, Clone)]
pub enum Hint {
    Queue,
    Events { session_id: Uuid, sequence: i64 },
    Cancel { run_id: Uuid },
    Live(Delta),
}

/// Sends hints, without waiting and without failing. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Notifier {
    messages: Option<mpsc::Sender<Message>>,
}

#[derive(Debug)]
enum Message {
    Hint(Hint),
    Soon(Hint),
    /// Answered when everything before it has been sent, or dropped.
    Flush(oneshot::Sender<()>),
}

impl Notifier {
    /// Nothing is sent: everything works by polling.
    pub fn off() -> Self {
        Self { messages: None }
    }

    /// Starts the task that sends; it ends when the last clone is gone.
    pub fn start(options: &PgConnectOptions) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        // Nothing that is sent here must survive a crash of the server.
        let options = options.clone().options([("synchronous_commit", "off")]);
        tokio::spawn(
            Sending {
                connection: OwnConnections::one(options),
                messages: receiver,
                hints: Payloads::default(),
                live: LiveBuffer::default(),
                due: None,
                spent_until: Instant::now(),
            }
            .run(),
        );
        Self { messages: Some(sender) }
    }

    pub fn send(&self, hints: impl IntoIterator<Item = Hint>) {
        self.send_all(hints.into_iter().map(Message::Hint));
    }

    /// Of what is news to whoever watches, and nothing that anybody waits for: a claim, a step on the way. The steps of a quick
    /// run are told together.
    pub(crate) fn send_soon(&self, hints: impl IntoIterator<Item = Hint>) {
        self.send_all(hints.into_iter().map(Message::Soon));
    }

    fn send_all(&self, mut messages: impl Iterator<Item = Message>) {
        let Some(sender) = &self.messages else { return };
        if messages.any(|message| sender.try_send(message).is_err()) {
            tracing::debug!("hints were dropped: too many are waiting");
        }
    }

    /// Waits until what was sent before has left this process: for one that is about to end.
    pub async fn flush(&self) {
        let Some(sender) = &self.messages else { return };
        let (done, flushed) = oneshot::channel();
        if sender.send(Message::Flush(done)).await.is_ok() {
            let _ = flushed.await; // dropped: the task has ended, and nothing waits any more
        }
    }
}

struct Sending {
    connection: OwnConnections,
    messages: mpsc::Receiver<Message>,
    hints: Payloads,
    live: LiveBuffer,
    /// When what waits is to be sent.
    due: Option<Instant>,
    /// Each statement spends an interval, from when the one before is spent; a burst may be spent ahead.
    spent_until: Instant,
}

impl Sending {
    async fn run(mut self) {
        loop {
            let due = async {
                match self.due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                message = self.messages.recv() => match message {
                    Some(message) => self.take(message).await,
                    None => break,
                },
                () = due => self.flush().await,
            }
        }
        self.flush().await;
        self.connection.close().await;
    }

    /// Takes what is ready. A delta waits for its neighbours; anything else takes along the deltas that came before it, so
    /// that nobody hears of a finished message before its last words.
    async fn take(&mut self, first: Message) {
        let (now, mut flushes) = (Instant::now(), Vec::new());
        let (mut next, mut taken) = (Some(first), 0);
        while let Some(message) = next {
            taken += 1;
            let due = match message {
                Message::Hint(Hint::Live(delta)) | Message::Soon(Hint::Live(delta)) => {
                    self.live.add(delta);
                    now + LIVE_INTERVAL
                }
                Message::Soon(hint) => {
                    self.hints.add(&hint);
                    now + SOON
                }
                Message::Hint(hint) => {
                    self.hints.add(&hint);
                    self.spent_until.checked_sub(HINT_INTERVAL * HINT_BURST).unwrap_or(now)
                }
                Message::Flush(done) => {
                    flushes.push(done);
                    now
                }
            };
            self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
            next = if taken < BATCH_MAX { self.messages.try_recv().ok() } else { None };
        }
        // The time of now: it is not over while there are messages.
        if self.hints.len() >= BATCH_MAX || self.due.is_some_and(|due| due <= Instant::now()) {
            self.flush().await;
        }
        for done in flushes {
            let _ = done.send(()); // whoever waited has stopped waiting
        }
    }

    async fn flush(&mut self) {
        self.due = None;
        let live = self.live.drain(PAYLOAD_BYTES_MAX).into_iter().map(|payload| (Channel::Live, payload));
        let all: Vec<(Channel, String)> = live.chain(std::mem::take(&mut self.hints).into_vec()).collect();
        if all.is_empty() {
            return;
        }
        if let Err(error) = db::answered(SEND_TIMEOUT, self.notify(&all)).await {
            tracing::debug!(error = chain(&error), "hints were not sent");
            tokio::time::sleep(RECONNECT_WAIT).await;
        }
        self.spent_until = self.spent_until.max(Instant::now()) + HINT_INTERVAL;
    }

    async fn notify(&self, hints: &[(Channel, String)]) -> Result<(), sqlx::Error> {
        let mut connection = self.connection.lend().await?;
        let (channels, payloads): (Vec<String>, Vec<String>) =
            hints.iter().map(|(channel, payload)| (channel.to_string(), payload.clone())).unzip();
        let sent = sqlx::query!(
            "SELECT count(pg_notify(h.channel, h.payload)) FROM unnest($1::text[], $2::text[]) AS h(channel, payload)",
            &channels,
            &payloads
        )
        .fetch_one(&mut *connection)
        .await;
        connection.answered(sent.map(|_| ()))
    }
}

/// Hints as they go out: one for each session, with its newest sequence, and one for the queue.
#[derive(Default)]
struct Payloads {
    queue: bool,
    sessions: HashMap<Uuid, i64>,
    cancels: Vec<Uuid>,
}

impl Payloads {
    fn add(&mut self, hint: &Hint) {
        match hint {
            Hint::Queue => self.queue = true,
            Hint::Events { session_id, sequence } => {
                let newest = self.sessions.entry(*session_id).or_default();
                *newest = (*sequence).max(*newest);
            }
            Hint::Cancel { run_id } => self.cancels.push(*run_id),
            Hint::Live(_) => {}
        }
    }

    fn len(&self) -> usize {
        usize::from(self.queue) + self.sessions.len() + self.cancels.len()
    }

    fn into_vec(self) -> Vec<(Channel, String)> {
        let queue = self.queue.then(|| (Channel::Queue, String::new()));
        let cancels = self.cancels.into_iter().map(|run_id| (Channel::Control, run_id.to_string()));
        let sessions =
            self.sessions.into_iter().map(|(session_id, sequence)| (Channel::Events, format!("{session_id}:{sequence}")));
        queue.into_iter().chain(cancels).chain(sessions).collect()
    }
}
