//! The physical limits: what this machine can do for the same thing without the product.
//!
//! - [`pgbench`]: statements. [`bare`]: frames from memory. [`copy`]: rows to a client.

pub(crate) mod bare;
pub(crate) mod copy;
pub(crate) mod pgbench;
