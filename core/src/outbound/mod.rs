//! The guarded way out: the only place that makes HTTP clients, so that nothing we send goes where it must not.
//!
//! What a provider, a tool or a redirect names is a stranger's word. A [`Client`] asks what an address is at every connection, when
//! the name has just been resolved, and connects to what it has checked: there is no second look-up to race. `operator` has the
//! exceptions, for addresses that an operator wrote down for this very purpose.

mod address;
mod client;
mod endpoint;
mod operator;
mod resolver;

pub use address::{AddressKind, Reach};
pub use client::{Client, SendError};
pub(crate) use endpoint::web_url;
pub use endpoint::{Endpoint, EndpointError};
pub use operator::{key_set_client, operator_client};

#[cfg(test)]
pub(crate) mod testing;
