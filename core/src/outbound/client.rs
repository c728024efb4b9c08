//! A client that goes where it may, and nowhere else.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, Request, Response};

use crate::outbound::address::{AddressKind, Reach};
use crate::outbound::endpoint::{self, EndpointError};
use crate::outbound::resolver::{Resolver, System};
#[cfg(test)]
use crate::outbound::{resolver::Lookup, testing};

/// Longest time to resolve a name: a machine asks its second server after five seconds.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(8);

/// Longest time to resolve, connect and shake hands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Longest silence, before the answer and within it.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest time from the first byte of a request to the last of its answer.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// One reach, one pool of connections: what was opened for one is never used for another. Cheap to clone; a clone shares the pool.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    reach: Reach,
}

/// Why there is no answer. Says nothing of the address, and has no source that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("the URL {0}")]
    Url(#[from] EndpointError),
    #[error("it leads to an address that is {0}, where it may not go")]
    Refused(AddressKind),
    #[error("its name does not resolve")]
    Unresolved,
    #[error("no connection to it can be made")]
    Unconnected,
    #[error("it did not answer in time")]
    TimedOut,
    #[error("the connection broke before it answered")]
    Broken,
}

impl SendError {
    /// Whether the same request may be answered later.
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::Url(_) | Self::Refused(_) => false,
            Self::Unresolved | Self::Unconnected | Self::TimedOut | Self::Broken => true,
        }
    }

    /// Whether the request may have been sent.
    pub const fn may_be_sent(self) -> bool {
        match self {
            Self::Url(_) | Self::Refused(_) | Self::Unresolved | Self::Unconnected => false,
            Self::TimedOut | Self::Broken => true,
        }
    }
}

impl Client {
    /// # Errors
    /// Where the machine has no random numbers or no TLS.
    pub fn new(reach: Reach) -> Result<Self, reqwest::Error> {
        let resolver = Resolver { lookup: Arc::new(System), reach, timeout: RESOLVE_TIMEOUT };
        Ok(Self { http: guarded(resolver).build()?, reach })
    }

    /// Sends a request, and follows no redirect: a new address is a new request, which is checked as the first one was.
    ///
    /// # Errors
    /// [`SendError`]. What breaks while the body of the answer is read is an error of the body.
    pub async fn send(&self, request: Request) -> Result<Response, SendError> {
        endpoint::check(request.url())?;
        if let Some(address) = endpoint::literal(request.url()) {
            self.admit(address)?;
        }
        let response = self.http.execute(request).await.map_err(|error| reason(&error))?;
        // It cannot be another than the one that was checked; if it ever is, nothing of its answer is read.
        if let Some(peer) = response.remote_addr() {
            self.admit(peer.ip())?;
        }
        Ok(response)
    }

    fn admit(&self, address: IpAddr) -> Result<(), SendError> {
        let kind = AddressKind::of(address);
        if self.reach.admits(kind) { Ok(()) } else { Err(SendError::Refused(kind)) }
    }

    /// Asks this double for names. Whatever goes wrong in a test, no packet leaves the machine: from a loopback address only
    /// loopback addresses can be reached.
    #[cfg(test)]
    pub(super) fn with_lookup(reach: Reach, lookup: Arc<dyn Lookup>) -> Self {
        // Doubles answer at once or never.
        let resolver = Resolver { lookup, reach, timeout: Duration::from_millis(1) };
        Self { http: guarded(resolver).local_address(testing::LOOPBACK).build().unwrap(), reach }
    }
}

/// What every guarded client is.
fn guarded(resolver: Resolver) -> ClientBuilder {
    unproxied().dns_resolver(resolver).connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT).timeout(WHOLE_TIMEOUT)
}

/// What every client is: a proxy, which would resolve names for us, is not taken from the environment, and nobody sends us elsewhere.
#[expect(clippy::disallowed_methods, reason = "this is the one place that makes HTTP clients")]
pub(super) fn unproxied() -> ClientBuilder {
    reqwest::Client::builder().no_proxy().redirect(Policy::none())
}

/// What went wrong, without the words of a library, which may hold the address.
fn reason(error: &reqwest::Error) -> SendError {
    let mut causes = std::iter::successors(error.source(), |cause: &&(dyn Error + 'static)| (*cause).source());
    if let Some(ours) = causes.find_map(|cause| cause.downcast_ref::<SendError>()) {
        *ours
    } else if error.is_timeout() {
        SendError::TimedOut
    } else if error.is_connect() {
        SendError::Unconnected
    } else {
        SendError::Broken
    }
}

#[cfg(test)]
mod tests;
