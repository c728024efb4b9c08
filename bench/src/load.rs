//! Clients over HTTP/1.1, each on one connection that it keeps: the next request goes out when the answer is in.
//!
//! On hyper's connection itself, without a pool, redirects or a URL to parse for each request: on two cores what the generator
//! uses is missing elsewhere. Its use is measured with everything else.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use crate::samples::{Completion, Window};

pub(crate) type Body = Full<Bytes>;

/// What all clients do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) clients: u16,
    pub(crate) window: Window,
    /// Any other answer ends the measurement: a refusal is faster than the work.
    pub(crate) expected: StatusCode,
}

impl Load {
    /// Sends the requests of turns 0, 1, 2 and so on, each turn once, until the window is over. Every request is answered then.
    pub(crate) async fn run(
        self,
        request: impl Fn(u64) -> Request<Body> + Clone + Send + Sync + 'static,
    ) -> Result<Vec<Completion>> {
        let mut connections = Vec::new();
        for _ in 0..self.clients {
            connections.push(connect(self.address).await?);
        }
        let (began, turns) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let mut clients = JoinSet::new();
        for connection in connections {
            clients.spawn(self.client(connection, began, Arc::clone(&turns), request.clone()));
        }
        let mut completions = Vec::new();
        while let Some(ended) = clients.join_next().await {
            completions.append(&mut ended.context("a client panicked")??);
        }
        Ok(completions)
    }

    async fn client(
        self,
        mut connection: SendRequest<Body>,
        began: Instant,
        turns: Arc<AtomicU64>,
        request: impl Fn(u64) -> Request<Body>,
    ) -> Result<Vec<Completion>> {
        let mut completions = Vec::new();
        let end = began + self.window.total();
        let mut sent = began;
        while sent < end {
            let request = request(turns.fetch_add(1, Ordering::Relaxed));
            connection.ready().await.context("the API closed a connection")?;
            let answer = connection.send_request(request).await.context("a request failed")?;
            let status = answer.status();
            let body = answer.into_body().collect().await.context("an answer broke off")?.to_bytes();
            ensure!(status == self.expected, "the API answered {status}: {}", String::from_utf8_lossy(&body));
            let now = Instant::now();
            completions.push(Completion { at: (now - began).as_micros() as u64, latency: (now - sent).as_micros() as u64 });
            // Making the request belongs to its latency, as it does in pgbench.
            sent = now;
        }
        Ok(completions)
    }
}

/// A client that keeps one connection, for scenarios that wait for each answer.
#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    connection: SendRequest<Body>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self { address, connection: connect(address).await? })
    }

    /// A session of the bench's agent. Its path.
    pub(crate) async fn create_session(&mut self) -> Result<String> {
        let session = self.post("/v1/sessions", r#"{"agent_id":"bench"}"#, StatusCode::CREATED).await?;
        Ok(format!("/v1/sessions/{}", session["id"].as_str().context("a session has an id")?))
    }

    /// A run of the session at a path, for a message without quotes.
    pub(crate) async fn submit(&mut self, session: &str, message: &str) -> Result<Uuid> {
        let body = format!(r#"{{"content":[{{"type":"text","text":"{message}"}}]}}"#);
        let run = self.post(&format!("{session}/messages"), body, StatusCode::ACCEPTED).await?;
        run["run_id"].as_str().context("a submission names its run")?.parse().context("a run's name is a UUID")
    }

    /// Posts JSON, under a key of its own; the answer, if it is this one.
    pub(crate) async fn post(&mut self, path: &str, body: impl Into<Bytes>, expected: StatusCode) -> Result<Value> {
        let request = Request::post(path)
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
            .header("idempotency-key", rand::random::<u64>())
            .body(Body::new(body.into()))
            .expect("its parts are visible ASCII");
        self.connection.ready().await.context("a connection was closed")?;
        let answer = self.connection.send_request(request).await.context("a request failed")?;
        let status = answer.status();
        let body = answer.into_body().collect().await.context("an answer broke off")?.to_bytes();
        ensure!(status == expected, "{path} answered {status}: {}", String::from_utf8_lossy(&body));
        if body.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&body).context("an answer is not JSON") }
    }
}

#[expect(clippy::disallowed_methods, reason = "the bench is a client of ours and calls nobody else")]
pub(crate) async fn connect<B>(address: SocketAddr) -> Result<SendRequest<B>>
where
    B: hyper::body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let socket = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
    socket.set_nodelay(true).context("setting TCP_NODELAY")?;
    let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.context("starting HTTP")?;
    // It ends when the sender is dropped; what went wrong before that, the sender has said.
    tokio::spawn(connection);
    Ok(sender)
}
