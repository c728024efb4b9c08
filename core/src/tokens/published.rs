//! Keys that somebody else publishes and changes: read at start, and again when a token asks for one that is not known.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::TryStreamExt;
use tokio::io::AsyncReadExt;
use tokio::sync::Mutex;
use url::Url;

use super::key::VerifyingKey;
use super::key_set::{self, KeySet};
use crate::clock::Clock;
use crate::config::Algorithm;
use crate::error::chain;

/// Anybody can ask for a key that nobody has: that must not become a flood of requests to the issuer.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);

/// Hundreds of keys; issuers publish a handful.
const BYTES_MAX: usize = 256 * 1024;

/// Where a key set is.
#[derive(Debug)]
pub(super) enum Source {
    File(PathBuf),
    Url { client: reqwest::Client, url: String },
}

impl fmt::Display for Source {
    /// Where it is, for messages: of an address only the server, for the rest of it may be nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the file `{}`", path.display()),
            Self::Url { url, .. } => match Url::parse(url) {
                Ok(url) => f.write_str(&url.origin().ascii_serialization()),
                Err(_) => f.write_str("`auth.jwks_url`"),
            },
        }
    }
}

/// Why a key set could not be read. Says nothing of what was read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("its file does not open")]
    File(#[from] std::io::Error),
    #[error("its address does not answer")]
    Url(#[source] reqwest::Error),
    #[error("it is larger than {BYTES_MAX} bytes")]
    TooLarge,
    #[error("it holds no key of `auth.jwks_algorithms`")]
    NoKey,
}

#[derive(Debug)]
pub(super) struct Published {
    source: Source,
    algorithms: Vec<Algorithm>,
    clock: Clock,
    /// Replaced as a whole: a key that is no longer published is no longer known.
    keys: RwLock<Arc<KeySet>>,
    /// When the last attempt began. Held during one, so that whoever asks meanwhile waits for its result.
    attempted_at: Mutex<Duration>,
}

impl Published {
    /// Reads the set for the first time.
    pub(super) async fn start(source: Source, algorithms: Vec<Algorithm>, clock: Clock) -> Result<Self, ReadError> {
        let attempted_at = Mutex::new(clock.elapsed());
        let keys = RwLock::new(Arc::new(source.read(&algorithms).await?));
        Ok(Self { source, algorithms, clock, keys, attempted_at })
    }

    /// The key of this name; reads the set again where it is not known, if that may be.
    pub(super) async fn find(self: &Arc<Self>, kid: &str) -> Option<Arc<VerifyingKey>> {
        if let Some(key) = self.known(kid) {
            return Some(key);
        }
        // In a task of its own: whoever asks and goes away must not use up the one attempt of the minute.
        let (published, name) = (Arc::clone(self), kid.to_owned());
        tokio::spawn(async move { published.refresh(&name).await }).await.ok()?;
        self.known(kid)
    }

    fn known(&self, kid: &str) -> Option<Arc<VerifyingKey>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).get(kid).cloned()
    }

    async fn refresh(&self, kid: &str) {
        let mut attempted_at = self.attempted_at.lock().await;
        let now = self.clock.elapsed();
        // Whoever held the lock may have brought the key.
        if self.known(kid).is_some() || now.saturating_sub(*attempted_at) < REFRESH_INTERVAL {
            return;
        }
        *attempted_at = now;
        match self.source.read(&self.algorithms).await {
            Ok(keys) => {
                tracing::info!(keys = keys.len(), "the key set was read again");
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
            }
            Err(error) => {
                tracing::warn!(from = %self.source, error = chain(&error), "the key set cannot be read: the old keys stay");
            }
        }
    }
}

impl Source {
    async fn read(&self, algorithms: &[Algorithm]) -> Result<KeySet, ReadError> {
        let bytes = match self {
            Self::File(path) => {
                let mut bytes = Vec::new();
                let file = tokio::fs::File::open(path).await?;
                file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await?;
                bytes
            }
            Self::Url { client, url } => download(client, url).await?,
        };
        if bytes.len() > BYTES_MAX {
            return Err(ReadError::TooLarge);
        }
        key_set::parse(&bytes, algorithms).ok_or(ReadError::NoKey)
    }
}

/// At most one chunk more than the bound.
async fn download(client: &reqwest::Client, url: &str) -> Result<Vec<u8>, ReadError> {
    // An address may hold what is nobody's business: errors go without it.
    let failed = |error: reqwest::Error| ReadError::Url(error.without_url());
    let response = client.get(url).send().await.and_then(reqwest::Response::error_for_status).map_err(failed)?;
    let mut chunks = response.bytes_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.try_next().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > BYTES_MAX {
            return Err(ReadError::TooLarge);
        }
    }
    Ok(bytes)
}
