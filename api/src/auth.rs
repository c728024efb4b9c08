//! From a credential to a principal. Nothing behind this module reads a credential again.

mod credential;

use std::fmt;
use std::sync::Arc;

use axum::http::HeaderMap;
use baton_core::clock::Clock;
use baton_core::config::{Auth, AuthMode};
use baton_core::tokens::{KeyError, Verifier};
use baton_core::{Error, Principal};
use futures::future::{BoxFuture, FutureExt};

pub(crate) use credential::{COOKIE, presented};

use crate::host::Bind;

/// Finds out who is asking. `Debug`, as everything in the state is: an implementation must not show its secrets there.
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// May take a while: a key may have to be fetched first.
    ///
    /// # Errors
    /// `Authentication`, whether the credential is missing or wrong.
    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Result<Principal, Error>>;
}

/// Why nobody could be told apart, so that nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum NoAuthenticator {
    #[error("`auth.mode = dev` has no credential: it listens on loopback addresses only")]
    DevIsRoutable,
    #[error("`auth.mode = jwt` has no keys to go by")]
    Keys(#[from] KeyError),
}

/// The authenticator of the configured mode, for a server on this bind.
///
/// # Errors
/// [`NoAuthenticator`].
pub async fn authenticator(settings: &Auth, bind: &Bind, clock: &Clock) -> Result<Arc<dyn Authenticator>, NoAuthenticator> {
    Ok(match settings.mode {
        AuthMode::Dev => Arc::new(DevAuthenticator::new(bind)?),
        AuthMode::Jwt => Arc::new(JwtAuthenticator(Verifier::start(settings, clock.clone()).await?)),
    })
}

/// Everybody is the same principal with every scope: only for whoever has the machine anyway.
#[derive(Debug)]
struct DevAuthenticator(());

impl DevAuthenticator {
    /// There is no credential that could keep others out.
    fn new(bind: &Bind) -> Result<Self, NoAuthenticator> {
        match bind {
            Bind::Loopback => Ok(Self(())),
            Bind::Routable { .. } => Err(NoAuthenticator::DevIsRoutable),
        }
    }
}

impl Authenticator for DevAuthenticator {
    fn authenticate<'a>(&'a self, _headers: &'a HeaderMap) -> BoxFuture<'a, Result<Principal, Error>> {
        std::future::ready(Ok(Principal::dev())).boxed()
    }
}

/// Whoever a signed token names.
#[derive(Debug)]
struct JwtAuthenticator(Verifier);

impl Authenticator for JwtAuthenticator {
    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Result<Principal, Error>> {
        async {
            let Some(token) = presented(headers) else {
                tracing::debug!("no credential: neither one `Authorization: Bearer` nor one cookie");
                return Err(Error::Authentication);
            };
            // The answer is the same whatever is wrong: only the log says what, and shows nothing of the token.
            self.0.verify(token).await.map_err(|refusal| {
                tracing::info!(%refusal, "a credential was refused");
                Error::Authentication
            })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
