//! What is written to a connection, byte for byte and in which time.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub plays: Vec<Play>,
}

/// A part of an answer. After the last one the connection is closed as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Play {
    Bytes(Vec<u8>),
    /// Each byte in a packet of its own.
    Drip(Vec<u8>),
    Wait(Duration),
    /// Nothing more, until the client has had enough.
    Hang,
    /// The connection is reset, as if the server had died.
    Reset,
}

impl Answer {
    /// A whole answer. Headers are lines without their ends.
    pub fn new(status: u16, headers: &[&str], body: impl AsRef<[u8]>) -> Self {
        let mut head = format!("HTTP/1.1 {status} Whatever\r\nconnection: close\r\n");
        headers.iter().for_each(|header| {
            head.push_str(header);
            head.push_str("\r\n");
        });
        head.push_str("\r\n");
        Self { plays: vec![Play::Bytes(head.into_bytes()), Play::Bytes(body.as_ref().to_vec())] }
    }

    /// A stream of events, which ends with the connection: as HTTP has it, it cannot be told from one that was cut off.
    pub fn events(body: impl AsRef<[u8]>) -> Self {
        Self::new(200, &["content-type: text/event-stream"], body)
    }

    pub fn then(mut self, play: Play) -> Self {
        self.plays.push(play);
        self
    }

    /// The same bytes, each alone.
    pub fn dripping(mut self) -> Self {
        for play in &mut self.plays {
            if let Play::Bytes(bytes) = play {
                *play = Play::Drip(std::mem::take(bytes));
            }
        }
        self
    }
}
