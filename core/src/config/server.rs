//! What the HTTP server takes, and for how long it is patient.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::required as human;
use serde::{Deserialize, Serialize};

use super::{AuthMode, ConfigError};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Names that requests may be for; needed where the address is not loopback.
    pub allowed_hosts: Vec<String>,
    /// Pages that may ask from a browser, beside our own: `https://console.example.com`. Never `*`.
    pub cors_origins: Vec<String>,
    /// Connections at once; the next ones wait in the system's queue.
    pub max_connections: u32,
    /// Streams at once of one principal. None: 100, and 10,000 in dev mode, where everybody is the same principal.
    pub max_streams_per_principal: Option<u32>,
    /// Request line and headers together. From 8 KiB, below which the HTTP library does not go.
    pub header_bytes_max: u32,
    /// From the first byte of a request to the last of its headers.
    #[serde(with = "human")]
    pub header_timeout: Duration,
    /// How long a connection without a request is kept. Longer than what stands in front keeps one, or a request of theirs
    /// meets our closing.
    #[serde(with = "human")]
    pub idle_timeout: Duration,
    /// For a whole body.
    #[serde(with = "human")]
    pub body_timeout: Duration,
    /// How long a client may take nothing of its answer.
    #[serde(with = "human")]
    pub write_timeout: Duration,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stream {
    /// Events that a stream may fall behind while its client takes nothing; then it ends, and the client resumes.
    pub max_lag: u32,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7420)),
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            max_connections: 16_384,
            max_streams_per_principal: None,
            header_bytes_max: 64 * 1024,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
        }
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self { max_lag: 10_000 }
    }
}

impl Server {
    /// The cap of streams, which has another default in each mode.
    pub fn streams_max(&self, mode: AuthMode) -> u32 {
        let default = if mode == AuthMode::Dev { 10_000 } else { 100 };
        self.max_streams_per_principal.unwrap_or(default)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let invalid = |key, problem| Err(ConfigError::Invalid { key, problem });
        if self.max_connections == 0 {
            return invalid("server.max_connections", "must be at least 1");
        }
        if !(8 * 1024..=1024 * 1024).contains(&self.header_bytes_max) {
            return invalid("server.header_bytes_max", "must be from 8 KiB to 1 MiB");
        }
        if [self.header_timeout, self.idle_timeout, self.body_timeout, self.write_timeout].contains(&Duration::ZERO) {
            return invalid("server", "needs time-outs above zero");
        }
        Ok(())
    }
}
