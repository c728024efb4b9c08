//! Names to addresses, for one connection each: what comes out has been checked, and is what is connected to.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::outbound::address::{AddressKind, Reach};
use crate::outbound::client::SendError;

/// Who knows the addresses of a name.
pub(super) trait Lookup: Debug + Send + Sync {
    fn look_up(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The machine's own resolver.
#[derive(Debug)]
pub(super) struct System;

impl Lookup for System {
    fn look_up(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) }.boxed()
    }
}

#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) reach: Reach,
    /// Longest time for one name.
    pub(super) timeout: Duration,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.reach;
        let (answer, timeout) = (self.lookup.look_up(name.as_str().to_owned()), self.timeout);
        async move {
            let answer = tokio::time::timeout(timeout, answer).await;
            // Why it does not resolve makes no difference: without an address there is nothing to connect to.
            let addresses = answer.ok().and_then(Result::ok).unwrap_or_default();
            Ok(checked(addresses, reach)?)
        }
        .boxed()
    }
}

/// All of them or none: a name with one bad address among good ones is somebody's attempt.
fn checked(addresses: Vec<IpAddr>, reach: Reach) -> Result<Addrs, SendError> {
    let mut kinds = addresses.iter().copied().map(AddressKind::of);
    match kinds.find(|kind| !reach.admits(*kind)) {
        Some(kind) => Err(SendError::Refused(kind)),
        None if addresses.is_empty() => Err(SendError::Unresolved),
        // Port 0 stands for that of the URL.
        None => Ok(Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)))),
    }
}
