//! A client that sends bytes, not requests: what no library would let it say.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{DEADLINE, Http};

/// One socket to the server.
pub(crate) struct Raw {
    pub(crate) socket: TcpStream,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// None: the connection was closed without one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let status = String::from_utf8_lossy(&bytes[..end]).split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, body: bytes[end + 4..].to_vec() })
    }

    /// Of the envelope.
    pub(crate) fn code(&self) -> Option<String> {
        let envelope: Value = serde_json::from_slice(&self.body).ok()?;
        Some(envelope["error"]["code"].as_str()?.to_owned())
    }
}

impl Raw {
    pub(crate) async fn open(http: &Http) -> Self {
        Self { socket: TcpStream::connect(http.url.strip_prefix("http://").unwrap()).await.unwrap() }
    }

    /// False: the server has closed.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.socket.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Everything until the server closes.
    pub(crate) async fn read_to_end(&mut self) -> Vec<u8> {
        self.read_to_end_within(DEADLINE).await.expect("the server closes")
    }

    /// None: it is still open.
    pub(crate) async fn read_to_end_within(&mut self, time: Duration) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        // A reset is an end, too.
        tokio::time::timeout(time, self.socket.read_to_end(&mut bytes)).await.ok().map(|_| bytes)
    }

    /// Reads until this has come.
    pub(crate) async fn read_until(&mut self, wanted: &str) -> String {
        let mut bytes = Vec::new();
        let reading = async {
            while !String::from_utf8_lossy(&bytes).contains(wanted) {
                assert_ne!(self.socket.read_buf(&mut bytes).await.unwrap(), 0, "{:?}", String::from_utf8_lossy(&bytes));
            }
        };
        tokio::time::timeout(DEADLINE, reading).await.expect(wanted);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A whole request on a connection that ends with its answer.
pub(crate) fn request(line: &str, headers: &str, body: &str) -> String {
    let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}{length}\r\n{body}")
}

pub(crate) async fn answer(http: &Http, request: impl AsRef<[u8]>) -> Option<Answer> {
    let mut raw = Raw::open(http).await;
    raw.send(request).await;
    Answer::parse(&raw.read_to_end().await)
}
