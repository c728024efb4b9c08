//! What a seed does: appends, cuts, lost listeners, overrun rings, restarts, in any order.

use std::collections::{BTreeSet, VecDeque};

use rand::Rng;
use uuid::Uuid;

use super::client::{Client, Turn};
use super::log::{SESSION, SimulatedLog};
use crate::events::follow::Follow;
use crate::events::hub::Hub;
use crate::events::log::Log;
use crate::events::ring::Size;
use crate::events::{EventType, MessageDelta};
use crate::notify::{Channel, Heard};

const STEPS: u32 = 150;
const CLIENTS_MAX: usize = 6;

/// Turns after which a client that has not had everything is one that waits for ever.
const TURNS_TO_THE_END_MAX: usize = 5_000;

/// What has to happen often enough.
pub(super) const HAPPENINGS: &[&str] = &[
    "cut",
    "cut inside a chunk",
    "failed",
    "listener lost",
    "no poll",
    "only polls",
    "overflow",
    "replay",
    "restart",
    "wake-up lost",
];

/// How a process learns of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    /// By wake-ups, and after a lost listener by its return: nothing is polled.
    Heard,
    /// Some wake-ups are lost; a poll finds them.
    HeardAndPolled,
    /// Nobody listens.
    Polled,
}

pub(super) struct Schedule {
    log: SimulatedLog,
    news: News,
    ring: Size,
    max_lag: u32,
    hub: Hub,
    follow: Follow,
    is_listening: bool,
    /// On the wire to the listener.
    told: VecDeque<Heard>,
    clients: Vec<Client>,
    runs: Vec<Uuid>,
    /// The last of them has not ended.
    is_running: bool,
    /// Streams that broke off because something failed.
    failed: usize,
    outcome: Outcome,
}

/// What a schedule was. Where it fails, its steps are what helps.
pub(super) struct Outcome {
    seed: u64,
    pub(super) trace: Vec<String>,
    pub(super) happened: BTreeSet<&'static str>,
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.trace.join("\n"));
            eprintln!("again: BATON_SEED={} cargo test -p baton-core gate_a7 -- --nocapture", self.seed);
        }
    }
}

impl Schedule {
    pub(super) fn run(seed: u64) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let mut schedule = Self::new(seed);
            for _ in 0..STEPS {
                schedule.step().await;
            }
            schedule.finish().await;
            schedule.outcome
        })
    }

    fn new(seed: u64) -> Self {
        let log = SimulatedLog::new(seed);
        let news = [News::Heard, News::HeardAndPolled, News::Polled][log.random(|random| random.random_range(0..3))];
        // From a ring that holds no event to one that holds them all, and from one frame at a time to everything.
        let kept = [300, 1_000, 3_000, 1 << 20][log.random(|random| random.random_range(0..4))];
        let chunk = [1, 600, 1 << 16][log.random(|random| random.random_range(0..3))];
        let max_lag = [2, 10_000][log.random(|random| random.random_range(0..2))];
        let ring = Size { kept, chunk };
        let (hub, follow) = start(&log, ring, max_lag);
        let outcome = Outcome { seed, trace: Vec::new(), happened: BTreeSet::new() };
        let mut schedule = Self {
            log,
            news,
            ring,
            max_lag,
            hub,
            follow,
            is_listening: false,
            told: VecDeque::new(),
            clients: Vec::new(),
            runs: Vec::new(),
            is_running: false,
            failed: 0,
            outcome,
        };
        schedule.note(format!("{news:?}, {ring:?}, overflow beyond {max_lag}"));
        match news {
            News::Heard => schedule.happened("no poll"),
            News::HeardAndPolled => {}
            News::Polled => schedule.happened("only polls"),
        }
        schedule.ready_without_listener();
        schedule.append(None, EventType::SessionCreated);
        schedule
    }

    async fn step(&mut self) {
        match self.random(200) {
            0..24 => self.write(),
            24..28 => self.burst().await,
            28..34 => self.say(),
            34..58 => self.deliver(),
            58..66 => self.listen(),
            66..69 => self.lose_the_listener(),
            69..75 if self.news != News::Heard => drop(tokio::spawn(poll(self.hub.clone()))),
            75..81 => self.join(),
            81..84 => self.cut(),
            84..85 => self.restart(),
            85..120 => self.others(4).await,
            _ => self.any_client().await,
        }
    }

    /// The next event: of a run, of the session between its runs or beside them.
    fn write(&mut self) {
        match self.random(10) {
            0 => self.append(None, EventType::SessionCreated),
            1 if self.is_running => self.end_run(),
            _ if self.is_running => self.append(self.runs.last().copied(), EventType::RunStarted),
            _ => {
                self.runs.push(Uuid::from_u128(100 + self.runs.len() as u128));
                self.is_running = true;
                self.append(self.runs.last().copied(), EventType::RunQueued);
            }
        }
    }

    /// More than a small ring holds, while no client looks.
    async fn burst(&mut self) {
        for _ in 0..8 {
            self.write();
        }
        self.told.drain(..).for_each(|heard| self.hub.take(heard));
        self.others(60).await;
    }

    /// The ring's reader and polls have their turns, at most so many.
    async fn others(&self, turns_max: u32) {
        for _ in 0..=self.random(turns_max) {
            tokio::task::yield_now().await;
        }
    }

    fn end_run(&mut self) {
        self.is_running = false;
        self.append(self.runs.last().copied(), EventType::RunCompleted);
    }

    /// The wake-up follows the commit; there may be nobody to hear it.
    fn append(&mut self, run_id: Option<Uuid>, event_type: EventType) {
        let sequence = self.log.append(run_id, event_type);
        self.note(format!("append {sequence} {event_type}"));
        if !self.is_listening {
            return;
        }
        if self.news == News::HeardAndPolled && self.random(4) == 0 {
            return self.happened("wake-up lost");
        }
        self.told.push_back(Heard::Hint { channel: Channel::Events, payload: format!("{SESSION}:{sequence}") });
    }

    /// A live frame: it may push stored ones out of the ring, and has no other bearing on them.
    fn say(&mut self) {
        let (Some(run_id), true) = (self.runs.last(), self.is_listening) else { return };
        let text = "x".repeat(self.log.random(|random| random.random_range(1..400)));
        let delta = MessageDelta { run_id: *run_id, step: 1, attempt: 1, message_index: 0, offset: 0, text };
        let frame = serde_json::to_string(&delta).expect("strings and numbers");
        self.told.push_back(Heard::Hint { channel: Channel::Live, payload: format!("{SESSION}:message.delta:{frame}") });
    }

    /// Some of what the listener was told arrives, in order.
    fn deliver(&mut self) {
        let arriving = self.log.random(|random| random.random_range(0..=self.told.len()));
        for heard in self.told.drain(..arriving) {
            self.hub.take(heard);
        }
    }

    fn listen(&mut self) {
        if self.news != News::Polled && !self.is_listening {
            self.note("LISTEN is confirmed");
            self.is_listening = true;
            self.told.push_back(Heard::Listening);
        }
    }

    /// With everything that it was told and has not heard.
    fn lose_the_listener(&mut self) {
        if self.is_listening {
            self.note("the listener is lost");
            self.happened("listener lost");
            self.is_listening = false;
            self.told.clear();
            self.hub.take(Heard::Lost);
        }
    }

    fn join(&mut self) {
        if self.clients.len() < CLIENTS_MAX {
            let runs = self.runs.len();
            let of = self.log.random(|random| random.random_range(0..=runs));
            let of = self.runs.get(of).copied();
            self.note(format!(
                "client {} comes for {}",
                self.clients.len(),
                of.map_or("the session".into(), |run| run.to_string())
            ));
            self.clients.push(Client::new(of));
        }
    }

    fn cut(&mut self) {
        if let Some(index) = self.any_index() {
            self.note(format!("client {index} is cut"));
            self.happened("cut");
            self.clients[index].cut();
        }
    }

    /// Of the API: everything but the log is gone, its clients come back.
    fn restart(&mut self) {
        self.note("restart");
        self.happened("restart");
        self.clients.iter_mut().for_each(Client::cut);
        self.is_listening = false;
        self.told.clear();
        (self.hub, self.follow) = start(&self.log, self.ring, self.max_lag);
        self.ready_without_listener();
    }

    fn ready_without_listener(&self) {
        if self.news == News::Polled {
            self.hub.set_ready();
        }
    }

    async fn any_client(&mut self) {
        let Some(index) = self.any_index() else { return };
        for _ in 0..=self.random(4) {
            let cut_after = self.log.random(|random| random.random_bool(0.05).then(|| random.random_range(0..4)));
            self.turn(index, cut_after).await;
        }
    }

    async fn turn(&mut self, index: usize, cut_after: Option<usize>) {
        if self.clients[index].is_done {
            return;
        }
        let turn = self.clients[index].turn(&self.log, &self.follow, cut_after).await;
        match &turn {
            Turn::Waits => return,
            Turn::Cut(_) => self.happened("cut inside a chunk"),
            Turn::Overflow => self.happened("overflow"),
            Turn::Failed => {
                self.happened("failed");
                self.failed += 1;
                assert!(self.failed <= self.log.failed(), "client {index} failed, and the log did not");
            }
            Turn::Opens if !self.clients[index].got.is_empty() => self.happened("replay"),
            Turn::Opens | Turn::Got(_) | Turn::Done => {}
        }
        self.note(format!("client {index}: {turn:?}"));
        self.clients[index].check(&self.log);
    }

    /// Everything ends, everything that was told arrives, and then every client has had everything once.
    async fn finish(&mut self) {
        if self.is_running {
            self.end_run();
        }
        self.append(None, EventType::SessionClosed);
        self.join();
        self.listen();
        for turn in 0..TURNS_TO_THE_END_MAX {
            if self.clients.iter().all(|client| client.is_done) {
                return;
            }
            self.told.drain(..).for_each(|heard| self.hub.take(heard));
            if self.news != News::Heard && turn % 20 == 0 {
                tokio::spawn(poll(self.hub.clone()));
            }
            for index in 0..self.clients.len() {
                self.turn(index, None).await;
            }
            tokio::task::yield_now().await;
        }
        let waiting = self.clients.iter().position(|client| !client.is_done);
        panic!("client {waiting:?} waits for ever");
    }

    fn any_index(&self) -> Option<usize> {
        let clients = self.clients.len();
        (clients > 0).then(|| self.log.random(|random| random.random_range(0..clients)))
    }

    fn random(&self, below: u32) -> u32 {
        self.log.random(|random| random.random_range(0..below))
    }

    fn note(&mut self, step: impl Into<String>) {
        self.outcome.trace.push(step.into());
    }

    fn happened(&mut self, what: &'static str) {
        self.outcome.happened.insert(what);
    }
}

/// A process of the API. A read of a stream's own may fail; what the hub does then takes a timer.
fn start(log: &SimulatedLog, ring: Size, max_lag: u32) -> (Hub, Follow) {
    let hub = Hub::new(Log::Simulated(log.clone()), ring);
    let follow = Follow::new(Log::Simulated(log.failing(0.05)), hub.clone(), max_lag);
    (hub, follow)
}

async fn poll(hub: Hub) {
    hub.poll().await;
}
