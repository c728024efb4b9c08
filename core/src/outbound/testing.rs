//! Doubles for what is outside: names that resolve as a test wants, and servers on loopback that write down what they are sent.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::outbound::resolver::Lookup;
use crate::outbound::{Client, Reach};

pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// How a name resolves, each time that it is asked for.
pub(crate) type Answer = dyn Fn(usize) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Names, and how often each has been asked for. A name that it does not know does not exist.
#[derive(Default)]
pub(crate) struct Names {
    answers: HashMap<&'static str, Box<Answer>>,
    asked: Mutex<HashMap<String, usize>>,
}

impl Names {
    pub(crate) fn with(
        mut self,
        name: &'static str,
        answer: impl Fn(usize) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        self.answers.insert(name, Box::new(answer));
        self
    }

    /// A name that always resolves to these.
    pub(crate) fn at<const N: usize>(self, name: &'static str, addresses: [&str; N]) -> Self {
        let addresses = addresses.map(|address| address.parse().unwrap());
        self.with(name, move |_| Ok(addresses.to_vec()))
    }

    pub(crate) fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().get(name).copied().unwrap_or(0)
    }

    pub(crate) fn client(self: &Arc<Self>, reach: Reach) -> Client {
        Client::with_lookup(reach, Arc::clone(self) as Arc<dyn Lookup>)
    }
}

impl Lookup for Names {
    fn look_up(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let turn = {
            let mut asked = self.asked.lock().unwrap();
            let asked = asked.entry(name.clone()).or_default();
            *asked += 1;
            *asked - 1
        };
        let answer = self.answers.get(name.as_str()).map_or_else(|| Err(io::Error::other("NXDOMAIN")), |answer| answer(turn));
        async { answer }.boxed()
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Names")
    }
}

/// A server on loopback. It answers each path of its table, and keeps whatever it was sent.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Debug, Default)]
struct Heard {
    connections: usize,
    requests: Vec<String>,
}

impl Server {
    /// What it answers is a function of the path and of its own address, byte for byte; None: it closes the connection.
    pub(crate) fn start(answer: impl Fn(&str, SocketAddr) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = std::net::TcpListener::bind((LOOPBACK, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (answer, recorder) = (Arc::new(answer), Arc::clone(&heard));
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                recorder.lock().unwrap().connections += 1;
                let (answer, recorder) = (Arc::clone(&answer), Arc::clone(&recorder));
                tokio::spawn(async move { serve(socket, |path| answer(path, address), &recorder).await });
            }
        });
        Self { address, heard }
    }

    /// Answers everything with this page.
    pub(crate) fn page(text: &'static str) -> Self {
        Self::start(move |_, _| Some(ok(text)))
    }

    /// A URL here, under a name that the test resolves.
    pub(crate) fn url(&self, name: &str, path: &str) -> String {
        format!("http://{name}:{}{path}", self.address.port())
    }

    pub(crate) fn connections(&self) -> usize {
        self.heard.lock().unwrap().connections
    }

    /// What came before each empty line; of what is not HTTP, what came at all.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.heard.lock().unwrap().requests.clone()
    }
}

async fn serve(mut socket: TcpStream, answer: impl Fn(&str) -> Option<Vec<u8>>, recorder: &Mutex<Heard>) {
    // Room for the first message of TLS, which then comes in one piece.
    let mut received = Vec::with_capacity(16 * 1_024);
    while socket.read_buf(&mut received).await.is_ok_and(|read| read > 0) {
        let is_http = received.first().is_some_and(u8::is_ascii_alphabetic);
        if is_http && !received.ends_with(b"\r\n\r\n") {
            continue;
        }
        let request = String::from_utf8_lossy(&std::mem::take(&mut received)).into_owned();
        let answer = request.split(' ').nth(1).and_then(&answer).filter(|_| is_http);
        recorder.lock().unwrap().requests.push(request);
        let Some(answer) = answer else { return };
        if socket.write_all(&answer).await.is_err() {
            return;
        }
    }
}

pub(crate) fn ok(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{text}", text.len()).into_bytes()
}

pub(crate) fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}
