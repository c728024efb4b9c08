//! How many streams each principal has open.
//!
//! At the cap the newest is refused. Ending the oldest for it would make its client return and end another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_core::{Cap, Error, Identity, Principal};

use crate::connection::Stall;

/// Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Streams {
    max: u32,
    open: Arc<Mutex<HashMap<Identity, u32>>>,
}

impl Streams {
    pub fn new(max_per_principal: u32) -> Self {
        Self { max: max_per_principal, open: Arc::default() }
    }

    /// A place for one more stream of the principal, on a connection.
    ///
    /// # Errors
    /// `RateLimited`.
    pub(crate) fn take_place(&self, principal: &Principal, stall: Stall) -> Result<Place, Error> {
        let owner = principal.identity();
        let mut open = self.open();
        if open.get(&owner).copied().unwrap_or_default() >= self.max {
            return Err(Error::RateLimited(Cap::Streams));
        }
        *open.entry(owner.clone()).or_default() += 1;
        Ok(Place { owner, streams: self.clone(), stall })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Identity, u32>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    owner: Identity,
    streams: Streams,
    stall: Stall,
}

impl Place {
    /// Returns once the client of the stream has taken nothing for too long.
    pub(crate) async fn stalled(&self) {
        self.stall.0.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.streams.open();
        if let Some(count) = open.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests;
