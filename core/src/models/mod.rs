//! Models as the rules see them: the policies under which they are asked, what they cost, and the record of every call. Who
//! speaks to a provider is the worker's.

mod call;
mod key;
mod policy;
mod prices;

pub use call::{CONTINUATION_BYTES_MAX, ModelRows, SettledCall, StartedCall, continuations};
pub use key::{MissingKeys, key_of, missing_key, require_keys};
pub use policy::{Endpoint, OUTPUT_TOKENS_MIN, Policies, PoliciesError, Policy};
pub use prices::Prices;

/// The provider, and the built-in policy, that plays an agent's script.
pub const SCRIPTED: &str = "scripted";
