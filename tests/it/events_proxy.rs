//! Between the API and Postgres: sees every statement that goes by, and holds back the answers to those that a test names.
//! What lies between two statements of the product becomes a place where a test can act.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_core::config::Config;
use baton_devdb::testing;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use crate::support::eventually;

#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    port: u16,
    traffic: Arc<Traffic>,
}

#[derive(Debug)]
struct Traffic {
    seen: Mutex<Seen>,
    /// Parts of statements whose answers are held back.
    held: watch::Sender<HashSet<&'static str>>,
    /// How connections that listen end now; the next ones do not.
    blow: broadcast::Sender<Blow>,
    /// New connections are closed at once.
    refuses: AtomicBool,
    refused: AtomicUsize,
}

/// What happens to a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Blow {
    /// Closed, as by a server that stops.
    Close,
    /// Reset, as by one that has crashed.
    Reset,
    /// Nothing passes any more, and nobody says so: a route is lost.
    Silence,
}

#[derive(Debug, Default)]
struct Seen {
    /// Statements in the order in which they were sent to be executed.
    asked: Vec<String>,
    /// Statements whose answers have come, and wait.
    waiting: Vec<String>,
    /// What Postgres said to those who listen.
    told: Vec<u8>,
}

impl Proxy {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let traffic = Arc::new(Traffic {
            seen: Mutex::default(),
            held: watch::channel(HashSet::new()).0,
            blow: broadcast::channel(4).0,
            refuses: AtomicBool::new(false),
            refused: AtomicUsize::new(0),
        });
        let socket = testing::shared().socket_dir().join(".s.PGSQL.5432");
        tokio::spawn(accept(listener, socket, Arc::clone(&traffic)));
        Self { port, traffic }
    }

    /// Sends a configuration's connections this way.
    pub(crate) fn lead(&self, config: &mut Config) {
        let url = config.database.url.as_deref().unwrap();
        let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
        config.database.url = Some(format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port));
    }

    /// From now on answers to statements that contain this wait.
    pub(crate) fn hold(&self, part: &'static str) {
        self.traffic.held.send_modify(|held| _ = held.insert(part));
    }

    pub(crate) fn release(&self, part: &'static str) {
        self.traffic.held.send_modify(|held| _ = held.remove(part));
    }

    /// Hits every connection that listens.
    pub(crate) fn strike_listeners(&self, blow: Blow) {
        assert!(self.traffic.blow.send(blow).is_ok(), "there are connections");
    }

    /// Whether new connections are closed at once.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.traffic.refuses.store(refuses, Ordering::SeqCst);
    }

    /// How many were.
    pub(crate) fn refused(&self) -> usize {
        self.traffic.refused.load(Ordering::SeqCst)
    }

    /// Waits until such an answer is here and waits.
    pub(crate) async fn holds(&self, part: &str) {
        let waiting = || async { self.traffic.seen().waiting.iter().any(|sql| sql.contains(part)).then_some(()) };
        eventually(&format!("an answer to `{part}`"), waiting).await;
    }

    /// How many such statements were sent.
    pub(crate) fn asked(&self, part: &str) -> usize {
        self.traffic.seen().asked.iter().filter(|sql| sql.contains(part)).count()
    }

    /// Waits until a notification with this payload has gone by.
    pub(crate) async fn told(&self, payload: &str) {
        let payload = payload.as_bytes();
        let told = || async { self.traffic.seen().told.windows(payload.len()).any(|window| window == payload).then_some(()) };
        eventually("the notification", told).await;
    }
}

impl Traffic {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the answers to this statement are held back.
    async fn pass(&self, sql: &str) {
        let mut held = self.held.subscribe();
        let is_free = |held: &HashSet<&'static str>| !held.iter().any(|part| sql.contains(part));
        if is_free(&held.borrow()) {
            return;
        }
        self.seen().waiting.push(sql.to_owned());
        let _ = held.wait_for(is_free).await; // an error: the test is over
        self.seen().waiting.retain(|waiting| waiting != sql);
    }
}

async fn accept(listener: TcpListener, socket: PathBuf, traffic: Arc<Traffic>) {
    while let Ok((client, _)) = listener.accept().await {
        if traffic.refuses.load(Ordering::SeqCst) {
            traffic.refused.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        let server = UnixStream::connect(&socket).await.unwrap();
        tokio::spawn(connection(client, server, Arc::clone(&traffic)));
    }
}

/// Until either side closes.
async fn connection(client: TcpStream, server: UnixStream, traffic: Arc<Traffic>) {
    client.set_nodelay(true).unwrap();
    let (listens, mut blows) = (AtomicBool::new(false), traffic.blow.subscribe());
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    // What is being executed on this connection.
    let current = Mutex::new(String::new());
    let current = || current.lock().unwrap_or_else(PoisonError::into_inner);

    let questions = async {
        let (mut statements, mut bytes, mut is_started) = (HashMap::new(), Vec::new(), false);
        while from_client.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
            // Whole messages only; the first has no letter.
            while let Some(length) = message_length(&bytes, is_started) {
                let message: Vec<u8> = bytes.drain(..length).collect();
                if is_started && let Some(sql) = statement(&message, &mut statements) {
                    if !sql.is_empty() {
                        traffic.seen().asked.push(sql.clone());
                    }
                    listens.fetch_or(sql.starts_with("LISTEN"), Ordering::SeqCst);
                    *current() = sql;
                }
                is_started = true;
                if to_server.write_all(&message).await.is_err() {
                    return;
                }
            }
        }
    };
    let answers = async {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
            let sql = current().clone();
            traffic.pass(&sql).await;
            if listens.load(Ordering::SeqCst) {
                traffic.seen().told.extend_from_slice(&bytes[..read]);
            }
            if to_client.write_all(&bytes[..read]).await.is_err() {
                return;
            }
        }
    };
    let blow = async {
        loop {
            match blows.recv().await {
                Ok(blow) if listens.load(Ordering::SeqCst) => return blow,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return std::future::pending().await,
            }
        }
    };
    let blow = tokio::select! {
        () = questions => return,
        () = answers => return,
        blow = blow => blow,
    };
    match blow {
        Blow::Close => {}
        Blow::Reset => {
            let client = from_client.reunite(to_client).unwrap();
            client.set_zero_linger().unwrap();
        }
        Blow::Silence => std::future::pending().await,
    }
}

/// The length of the first message, where it is whole.
fn message_length(bytes: &[u8], has_letter: bool) -> Option<usize> {
    let at = usize::from(has_letter);
    let length = u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
    let length = at + usize::try_from(length).ok()?;
    (bytes.len() >= length).then_some(length)
}

/// What the message begins to execute; an empty text while something is only prepared.
fn statement(message: &[u8], statements: &mut HashMap<String, String>) -> Option<String> {
    let texts = String::from_utf8_lossy(&message[5..]);
    let mut texts = texts.split('\0').map(str::to_owned);
    match message[0] {
        b'Q' => texts.next(),
        b'P' => {
            let (name, sql) = (texts.next()?, texts.next()?);
            statements.insert(name, sql);
            Some(String::new())
        }
        b'B' => {
            let (_portal, name) = (texts.next()?, texts.next()?);
            statements.get(&name).cloned()
        }
        _ => None,
    }
}
