//! The server: one request a connection, each on record.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use serde_json::Value;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::answer::{Answer, Play};
use crate::turn::{Format, Turn};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Request {
    /// The format that it is in.
    pub fn format(&self) -> Format {
        Format::of_path(&self.path)
    }
}

type Rule = Box<dyn Fn(&Request) -> Answer + Send + Sync>;

/// A provider. Answers from its queue, and by its rule when that is empty.
#[derive(Debug, Clone)]
pub struct ModelDouble {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    queue: Mutex<VecDeque<Answer>>,
    rule: Mutex<Rule>,
    requests: Mutex<Vec<Request>>,
    open: AtomicUsize,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("open", &self.open).finish_non_exhaustive()
    }
}

impl ModelDouble {
    /// Listens until the runtime ends.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let rule: Rule = Box::new(|request| Answer::events(request.format().events(&Turn::text("hello"))));
        let state =
            State { queue: Mutex::default(), rule: Mutex::new(rule), requests: Mutex::default(), open: AtomicUsize::new(0) };
        let double = Self { address: listener.local_addr()?, state: Arc::new(state) };
        let state = Arc::clone(&double.state);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(state.clone().serve(socket));
            }
        });
        Ok(double)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request is answered with this; several are taken in turn.
    pub fn push(&self, answer: Answer) {
        lock(&self.state.queue).push_back(answer);
    }

    /// How requests are answered for which nothing was pushed.
    pub fn answer_with(&self, rule: impl Fn(&Request) -> Answer + Send + Sync + 'static) {
        *lock(&self.state.rule) = Box::new(rule);
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.state.requests).clone()
    }

    /// Requests that are being answered: an aborted call must not stay among them.
    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }
}

impl State {
    async fn serve(self: Arc<Self>, mut socket: TcpStream) {
        let Some(request) = read(&mut socket).await else { return };
        lock(&self.requests).push(request.clone());
        let queued = lock(&self.queue).pop_front();
        let answer = queued.unwrap_or_else(|| lock(&self.rule)(&request));
        self.open.fetch_add(1, Ordering::SeqCst);
        let _ = play(&mut socket, answer).await; // the client may have had enough
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A request without a body, or with one that has a length; what is none is not answered.
async fn read(socket: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        socket.read_buf(&mut bytes).await.ok().filter(|read| *read > 0)?;
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: HeaderMap = lines
        .filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        })
        .collect();
    let length: usize = match headers.get(CONTENT_LENGTH) {
        Some(length) => length.to_str().ok()?.parse().ok()?,
        None => 0,
    };
    while bytes.len() < head_end + length {
        socket.read_buf(&mut bytes).await.ok().filter(|read| *read > 0)?;
    }
    let body = &bytes[head_end..];
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).ok()? };
    Some(Request { path, headers, body })
}

async fn play(socket: &mut TcpStream, answer: Answer) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    for play in answer.plays {
        match play {
            Play::Bytes(bytes) => socket.write_all(&bytes).await?,
            Play::Drip(bytes) => {
                for byte in bytes {
                    socket.write_all(&[byte]).await?;
                    tokio::task::yield_now().await;
                }
            }
            Play::Wait(time) => tokio::time::sleep(time).await,
            Play::Hang => while socket.read(&mut [0; 64]).await? > 0 {},
            // Closing with nothing to wait for is what resets.
            Play::Reset => return SockRef::from(&*socket).set_linger(Some(Duration::ZERO)),
        }
    }
    socket.shutdown().await
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
