//! A bare axum server that writes prepared frames from memory: the streaming ceiling.
//!
//! A process of its own, as the API is: this executable, with `--bare FILE`. It has no log, no ring, no cursor and no time-outs, and
//! a frame that is written costs it no copy.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// What the product hands to a socket at once, too.
const CHUNK_BYTES: usize = 64 * 1024;

const OPENING: Bytes = Bytes::from_static(b"retry: 1000\n: open\n\n");

#[derive(Debug, Clone)]
struct Prepared {
    /// One by one, and as many together as a chunk holds.
    frames: Vec<Bytes>,
    chunks: Vec<Bytes>,
    /// Changes when everybody may begin.
    start: watch::Sender<()>,
}

/// Serves the frames of a file until it is killed. Its ready file says where, as the product's does.
pub(crate) async fn serve(frames: &Path, ready: &Path) -> Result<()> {
    let text = fs::read(frames).with_context(|| format!("reading {}", frames.display()))?;
    let prepared = Prepared { frames: cut(&text, 1), chunks: cut(&text, CHUNK_BYTES), start: watch::channel(()).0 };
    let listener = TcpListener::bind("127.0.0.1:0").await.context("listening")?;
    let url = format!("http://{}", listener.local_addr().context("listening")?);
    let beside = ready.with_extension("tmp");
    let mut file = fs::File::create(&beside).with_context(|| format!("creating {}", beside.display()))?;
    serde_json::to_writer(&mut file, &serde_json::json!({ "pid": std::process::id(), "url": url }))?;
    file.flush()?;
    fs::rename(&beside, ready)?;
    let listener = listener.tap_io(|socket| {
        // It says only that the client has gone already.
        let _ = socket.set_nodelay(true);
    });
    let router = Router::new()
        .route("/log", get(log))
        .route("/live/frames", get(live_frames))
        .route("/live/chunks", get(live_chunks))
        .route("/start", post(start));
    axum::serve(listener, router.with_state(prepared)).await.context("serving")
}

/// Whole frames, so many together that they have at least these bytes.
fn cut(text: &[u8], bytes: usize) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    let mut rest = Bytes::copy_from_slice(text);
    while !rest.is_empty() {
        let from = bytes.min(rest.len()) - 1;
        let end = memchr::memmem::find(&rest[from..], b"\n\n").map_or(rest.len(), |at| from + at + 2);
        pieces.push(rest.split_to(end));
    }
    pieces
}

/// All of them, and the end.
async fn log(State(prepared): State<Prepared>) -> Response {
    answer(stream::once(async { OPENING }).chain(stream::iter(prepared.chunks)))
}

async fn live_frames(State(prepared): State<Prepared>) -> Response {
    once_started(&prepared.start, prepared.frames)
}

async fn live_chunks(State(prepared): State<Prepared>) -> Response {
    once_started(&prepared.start, prepared.chunks)
}

/// All of them once they are started, and then silence.
fn once_started(start: &watch::Sender<()>, pieces: Vec<Bytes>) -> Response {
    let mut start = start.subscribe();
    let started = stream::once(async move {
        let _ = start.changed().await; // an error is the end of this process
        stream::iter(pieces)
    });
    answer(stream::once(async { OPENING }).chain(started.flatten()).chain(stream::pending()))
}

async fn start(State(prepared): State<Prepared>) {
    prepared.start.send_replace(());
}

fn answer(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let body = Body::from_stream(chunks.map(Ok::<_, std::convert::Infallible>));
    ([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], body).into_response()
}
