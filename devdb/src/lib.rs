//! A private Postgres from the machine's own binaries, for `agentctl dev` and for tests.
//!
//! [`Cluster::start`] makes a cluster in a folder if there is none, starts it on a Unix socket, and ends it when the
//! value is dropped or the process dies, `kill -9` included. It copes with being root. Linux only: the death signal
//! and `/proc` have no portable equivalent.
//!
//! - `binaries`: which Postgres to run. `owner`: as whom. [`child`]: a process that dies with us.
//! - `cluster`: folder, lock, `initdb`, server. [`databases`]: the SQL of a cluster's owner. [`testing`]: clusters
//!   that are thrown away.
//!
//! Nothing here knows a table of Baton: migrations are the caller's.

#![deny(unsafe_code)]

mod binaries;
pub mod child;
mod cluster;
pub mod databases;
mod error;
mod owner;
mod run;
pub mod testing;
mod wait;

pub use binaries::{Binaries, Candidates, Download};
pub use cluster::{Cluster, Durability, Options};
pub use error::Error;
pub use owner::Owner;
