//! A socket that reports what passes through it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use baton_core::error::chain;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::connection::progress::Progress;

/// Silence after which the system asks whether the other side is still there, and how often it asks again.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    progress: Arc<Progress>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, unacknowledged_max: Duration, progress: Arc<Progress>) -> Self {
        if let Err(error) = set_up(&stream, unacknowledged_max) {
            tracing::debug!(error = chain(&error), "a socket keeps the system's settings");
        }
        Self { stream, progress }
    }

    /// Passes on what the socket said to a write.
    fn written(&self, answer: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &answer {
            Poll::Pending => self.progress.blocked(),
            Poll::Ready(_) => self.progress.sent(),
        }
        answer
    }
}

fn set_up(stream: &TcpStream, unacknowledged_max: Duration) -> io::Result<()> {
    // A small frame must not wait for the acknowledgement of the one before it (Nagle's algorithm).
    stream.set_nodelay(true)?;
    // A client that is gone without a word does not acknowledge what the socket takes for it. Without these the system
    // tries for a quarter of an hour.
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_INTERVAL))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(unacknowledged_max))?;
    Ok(())
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let answer = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.progress.received();
        }
        answer
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(answer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.written(answer)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
