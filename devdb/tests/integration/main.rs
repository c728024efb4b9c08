//! The crate against the machine's own Postgres, as root and as another user alike.

mod crash;
mod databases;
mod lifecycle;
mod places;
mod support;
