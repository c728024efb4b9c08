//! Wake-ups between processes, through Postgres NOTIFY.
//!
//! A hint makes somebody faster and never carries truth: every loss of one costs latency, never an event. NOTIFY takes a
//! lock of the whole database until its commit is flushed, so it never runs in a transaction that writes rows: each process
//! sends on a connection of its own, after the commit, many hints in one statement.

mod listener;
mod live;
mod sender;

pub use listener::{Heard, Listener, Ways};
pub use live::{Delta, DeltaKind};
pub use sender::{Hint, Notifier};

use crate::closed_set::closed_set;

closed_set! {
    /// The channels. Payloads hold identifiers and numbers only, except `baton_live`, which carries the text of deltas: any
    /// role that may connect can listen, so CONNECT is revoked from PUBLIC in production.
    Channel {
        /// A run is due: any worker may look.
        Queue = "baton_queue",
        /// A session has new events: `session id:sequence`.
        Events = "baton_events",
        /// Transient frames of a session: `session id:kind:frame`.
        Live = "baton_live",
        /// A run was asked to cancel: its id.
        Control = "baton_control",
    }
}

/// Postgres refuses a payload of 8,000 bytes; the difference is for the session's id before the frame.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 7_900;
