//! Server-sent events, from bytes however they are cut. Of an event only its data counts: providers repeat its type in it.
//!
//! The library that the command line uses will not do for servers that are not ours: it panics at a byte order mark, loses the
//! last event of a stream whose lines end in CR, keeps what is not UTF-8 until the stream ends, and has no bound.

/// Bytes of one event at most. The longest that are known repeat a whole answer with its encrypted reasoning.
const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A stream that cannot be read: not UTF-8, or without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The line that is not over yet.
    line: Vec<u8>,
    /// The data of the event that is not over yet, a line feed behind each of its lines.
    data: String,
    is_past_first_line: bool,
    /// The last byte was a CR, which ended a line: a LF would belong to it.
    is_after_cr: bool,
}

impl Decoder {
    /// Adds the data of every event that ends within these bytes, up to where they cannot be read.
    pub(super) fn push(&mut self, mut bytes: &[u8], events: &mut Vec<String>) -> Result<(), Unreadable> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.is_after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
                return Err(Unreadable);
            }
            let Some(end) = end else { break };
            self.is_after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            events.extend(self.end_line()?);
        }
        Ok(())
    }

    /// What stands behind the end of the last event: some servers end that with the stream. Otherwise the stream was cut off
    /// there, which is for the reader of the data to find out.
    pub(super) fn finish(&mut self) -> Result<Option<String>, Unreadable> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        Ok(self.event())
    }

    /// An empty line ends an event.
    fn end_line(&mut self) -> Result<Option<String>, Unreadable> {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.is_past_first_line, true) && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        let line = std::str::from_utf8(&line).map_err(|_| Unreadable)?;
        if line.is_empty() {
            return Ok(self.event());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
            self.data.push('\n');
        }
        Ok(None)
    }

    fn event(&mut self) -> Option<String> {
        let mut data = std::mem::take(&mut self.data);
        data.pop()?; // the last line feed
        Some(data)
    }
}
