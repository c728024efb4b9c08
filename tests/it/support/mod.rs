//! What tests stand on. Every integration test ends with the audit.

mod app;
mod audit;
pub(crate) mod contract;
mod database;
mod everything;
mod http;
mod issuer;
mod log;
mod process;
mod real;
mod stream;
mod terminal;
mod tools;
mod wait;

pub(crate) use app::{Asked, TestApp};
pub(crate) use audit::{audit, violations};
pub(crate) use database::{TestDatabase, pool};
pub(crate) use everything::{Everything, OF_THE_API};
pub(crate) use http::{Caller, Http, id, message};
pub(crate) use issuer::{AUDIENCE, DocumentServer, ISSUER, SigningKey, borrowed, claims, jwt, jwt_variables};
pub(crate) use log::{bodies_of, calls_of, events_of, without_takeovers};
pub(crate) use process::Process;
pub(crate) use real::{RealApp, SHORT_LEASE};
pub(crate) use stream::{Follower, Frame, Watched, parse_frames};
pub(crate) use terminal::Terminal;
pub(crate) use tools::{Gates, LETTER, OUTPUT_BYTES_MAX, changed_write, long_text, test_tools, unreachable_conditional};
pub(crate) use wait::{DEADLINE, eventually, within};

use std::path::{Path, PathBuf};

/// The agents of the tests.
pub(crate) fn agents_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/agents")
}

/// The policies of the tests: the default one, and `trusted`, which asks nobody.
pub(crate) fn policies_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/policies")
}

/// The lines of a file of effects; none where there is none.
pub(crate) fn effects(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}
