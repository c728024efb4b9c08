//! A model provider on a loopback socket that answers what a test tells it, right or wrong. It speaks the three formats that Baton
//! speaks, and HTTP as badly as one likes: it writes bytes, waits, cuts the connection.

#![forbid(unsafe_code)]

mod answer;
mod serve;
mod turn;

pub use answer::{Answer, Play};
pub use serve::{ModelDouble, Request};
pub use turn::{Call, Fault, Format, Turn};
