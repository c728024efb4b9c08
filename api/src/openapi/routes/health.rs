//! Health.

use serde_json::{Value, json};

use crate::openapi::operation::{Answer, Operation};
use crate::openapi::schemas::object;

pub(crate) fn live() -> Operation {
    Operation::new("operators", "isLive", "Whether the process lives")
        .about("Checks nothing: a process whose database is away must not be restarted for it.")
        .answer(says(200, "It lives.", "ok"))
}

pub(crate) fn ready() -> Operation {
    Operation::new("operators", "isReady", "Whether the process can work")
        .about("One round trip to the database, and whether its schema is the one that this version knows.")
        .answer(says(200, "It can work.", "ready"))
        .answer(says(503, "It cannot; the one refusal without an envelope.", "not_ready"))
}

fn says(status: u16, description: &str, word: &str) -> Answer {
    let schema: Value = object(&json!({"status": {"const": word}}));
    Answer::new(status, description).media("application/json", schema, Some(json!({"status": word})))
}
