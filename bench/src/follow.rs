//! Clients that follow a stream of events, and count what they get: each stored event once, without a gap.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use memchr::memchr;
use tokio::time::Instant;

use crate::load;

/// An open stream. Its connection is closed with it.
#[derive(Debug)]
pub(crate) struct Follower {
    body: Incoming,
    frames: Frames,
    /// The stream has ended.
    ended: bool,
}

/// What has been read of a stream.
#[derive(Debug, Default)]
struct Frames {
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    /// Of the frame that is being read; none in a transient one.
    id: Option<u64>,
    last_id: Option<u64>,
}

impl Follower {
    /// Opens a stream from its beginning, and waits for its first bytes.
    pub(crate) async fn open(address: std::net::SocketAddr, path: &str) -> Result<Self> {
        let mut connection = load::connect(address).await?;
        let request = Request::get(path).header("host", address.to_string()).header("accept", "text/event-stream");
        let request = request.body(Empty::<Bytes>::new()).expect("its parts are visible ASCII");
        let answer = connection.send_request(request).await.context("a stream was not answered")?;
        ensure!(answer.status() == StatusCode::OK, "{path} answered {}", answer.status());
        let mut follower = Self { body: answer.into_body(), frames: Frames::default(), ended: false };
        follower.read(&mut |_, _| ()).await?;
        Ok(follower)
    }

    /// Reads until the stored event with this sequence is there.
    pub(crate) async fn until(&mut self, sequence: u64) -> Result<Instant> {
        while self.frames.last_id.is_none_or(|last| last < sequence) {
            ensure!(!self.ended, "a stream ended before event {sequence}");
            self.read(&mut |_, _| ()).await?;
        }
        Ok(Instant::now())
    }

    /// Reads until a stored event of this type is there. When the first one came, and when that one came.
    pub(crate) async fn until_type(&mut self, wanted: &str) -> Result<(Instant, Instant)> {
        let (mut first, mut found) = (None, None);
        while found.is_none() {
            ensure!(!self.ended, "a stream ended before {wanted}");
            self.read(&mut |_, event_type| {
                let now = Instant::now();
                first.get_or_insert(now);
                if event_type == wanted.as_bytes() {
                    found.get_or_insert(now);
                }
            })
            .await?;
        }
        first.zip(found).context("the first comes with the last at the latest")
    }

    /// Reads to the end of the stream. The bytes that came, where they are wanted.
    pub(crate) async fn read_to_end(&mut self, mut keep: Option<&mut Vec<u8>>) -> Result<u64> {
        while !self.ended {
            let chunk = self.read(&mut |_, _| ()).await?;
            if let Some(kept) = &mut keep {
                kept.extend_from_slice(&chunk);
            }
        }
        self.frames.last_id.context("a stream ended without an event")
    }

    async fn read(&mut self, seen: &mut impl FnMut(u64, &[u8])) -> Result<Bytes> {
        let Some(frame) = self.body.frame().await else {
            self.ended = true;
            return Ok(Bytes::new());
        };
        let chunk = frame.context("a stream broke off")?.into_data().unwrap_or_default();
        self.frames.take(&chunk, seen)?;
        Ok(chunk)
    }
}

impl Frames {
    /// Tells of each stored event by its sequence and type.
    fn take(&mut self, mut chunk: &[u8], seen: &mut impl FnMut(u64, &[u8])) -> Result<()> {
        while let Some(end) = memchr(b'\n', chunk) {
            let (line, after) = (&chunk[..end], &chunk[end + 1..]);
            if self.rest.is_empty() {
                self.line(line, seen)?;
            } else {
                let mut whole = std::mem::take(&mut self.rest);
                whole.extend_from_slice(line);
                self.line(&whole, seen)?;
            }
            chunk = after;
        }
        self.rest.extend_from_slice(chunk);
        Ok(())
    }

    fn line(&mut self, line: &[u8], seen: &mut impl FnMut(u64, &[u8])) -> Result<()> {
        if let Some(id) = line.strip_prefix(b"id: ") {
            let id = str::from_utf8(id)?.parse().context("an id is no number")?;
            ensure!(self.last_id.is_none_or(|last| id == last + 1), "event {id} came after {:?}", self.last_id);
            self.id = Some(id);
        } else if let Some(event_type) = line.strip_prefix(b"event: ") {
            ensure!(!event_type.starts_with(b"stream."), "the stream said {}", String::from_utf8_lossy(event_type));
            if let Some(id) = self.id {
                seen(id, event_type);
            }
        } else if line.is_empty() {
            self.last_id = self.id.take().or(self.last_id);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chunks: &[&str]) -> Result<Vec<(u64, String)>> {
        let (mut frames, mut events) = (Frames::default(), Vec::new());
        for chunk in chunks {
            let mut seen = |id, name: &[u8]| events.push((id, String::from_utf8_lossy(name).into_owned()));
            frames.take(chunk.as_bytes(), &mut seen)?;
        }
        Ok(events)
    }

    #[test]
    fn a_frame_may_come_in_pieces_and_a_transient_one_counts_for_nothing() {
        let chunks =
            ["retry: 9\n: open\n\nid: 1", "2\nevent: a\nda", "ta: {}\n\nevent: b\ndata: {}\n\nid: 13\nevent: c\ndata: {}\n\n"];
        assert_eq!(read(&chunks).unwrap(), [(12, "a".to_owned()), (13, "c".to_owned())]);
    }

    #[test]
    fn a_gap_and_a_repetition_are_errors() {
        assert!(read(&["id: 1\nevent: a\n\nid: 3\nevent: a\n\n"]).is_err());
        assert!(read(&["id: 1\nevent: a\n\nid: 1\nevent: a\n\n"]).is_err());
        assert!(read(&["event: stream.overflow\ndata: {}\n\n"]).is_err());
    }
}
