//! From a credential to a principal. Nothing behind this module reads a credential again.

use std::fmt;
use std::sync::Arc;

use axum::http::request::Parts;
use baton_core::config::AuthMode;
use baton_core::{Error, Principal};

use crate::host::{Bind, Refusal};

/// Finds out who is asking. `Debug`, as everything in the state is: an implementation must not show its secrets there.
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// # Errors
    /// `Authentication`, whether the credential is missing or wrong.
    fn authenticate(&self, request: &Parts) -> Result<Principal, Error>;
}

/// The authenticator of a mode, for a server on this bind.
///
/// # Errors
/// [`Refusal::DevIsRoutable`].
pub fn authenticator(mode: AuthMode, bind: &Bind) -> Result<Arc<dyn Authenticator>, Refusal> {
    match mode {
        AuthMode::Dev => Ok(Arc::new(DevAuthenticator::new(bind)?)),
    }
}

/// Everybody is the same principal with every scope: only for whoever has the machine anyway.
#[derive(Debug)]
pub struct DevAuthenticator(());

impl DevAuthenticator {
    /// # Errors
    /// [`Refusal::DevIsRoutable`] unless the bind is loopback: there is no credential that could keep others out.
    pub fn new(bind: &Bind) -> Result<Self, Refusal> {
        match bind {
            Bind::Loopback => Ok(Self(())),
            Bind::Routable { .. } => Err(Refusal::DevIsRoutable),
        }
    }
}

impl Authenticator for DevAuthenticator {
    fn authenticate(&self, _request: &Parts) -> Result<Principal, Error> {
        Ok(Principal::dev())
    }
}
