//! Policy: what a call may do, decided before anything happens.
//!
//! Three layers, the most restrictive wins: [`hardline`] rules in the binary, a [`profile`] from a file, the [`agent`]'s own.
//! Nothing here reads a clock, a database, a prompt or a model; the same action is decided the same for ever.

mod agent;
mod decide;
mod hardline;
mod profile;
mod profiles;
mod tool_name;

pub use agent::AgentPolicy;
pub use decide::{Action, Decision, Effect, Policy};
pub use profiles::{ProfileError, Profiles};

#[cfg(test)]
mod tests;
