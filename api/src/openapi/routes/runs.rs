//! Runs.

use baton_core::Code;
use baton_core::runs::{DeliverInput, RunStatus, RunView, Submitted, WAIT_MAX, WhyView};
use serde_json::{Value, json};

use crate::openapi::operation::{Answer, Operation};
use crate::openapi::schemas::{one, page_of};
use crate::openapi::{events, examples};

/// The operations on one run, which its identifier leads to.
const OF_A_RUN: [&str; 4] = ["listRunEvents", "explainRun", "cancelRun", "deliverInput"];

fn statuses() -> Value {
    RunStatus::ALL.iter().map(|status| status.as_str()).collect()
}

/// A view, and what may be asked about it next.
fn run(status: u16, description: &str, example: Value) -> Answer {
    Answer::new(status, description)
        .json(one::<RunView>(), example)
        .links(&OF_A_RUN, "run_id", "$response.body#/id")
        .link("getSession", &[("session_id", "$response.body#/session_id")])
}

fn wait() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": WAIT_MAX.as_secs(), "default": 0})
}

pub(crate) fn list() -> Operation {
    let time = json!({"type": "string", "format": "date-time"});
    Operation::new("runs", "listRuns", "Runs, newest first")
        .query("session_id", &json!({"type": "string", "format": "uuid"}), "Of this session.")
        .query(
            "status",
            &json!({"type": "array", "items": {"type": "string", "enum": statuses()}}),
            "In one of these; repeated for each.",
        )
        .query("created_after", &time, "Younger than this moment.")
        .query("created_before", &time, "Older than this moment.")
        .paged()
        .answer(Answer::new(200, "A page of runs.").json(page_of::<RunView>(), examples::page(&examples::run())).links(
            &["getRun"],
            "run_id",
            "$response.body#/items/0/id",
        ))
}

pub(crate) fn get() -> Operation {
    Operation::new("runs", "getRun", "A run")
        .query("wait", &wait(), "Seconds for which the answer may be held until the run has ended or waits for somebody.")
        .answer(run(200, "The run; after the wait, as it is then.", examples::run()))
}

pub(crate) fn why() -> Operation {
    Operation::new("runs", "explainRun", "Why a run is not further")
        .answer(Answer::new(200, "What holds it, and what happens next.").json(one::<WhyView>(), examples::why()))
}

pub(crate) fn events() -> Operation {
    let operation = Operation::new("runs", "listRunEvents", "The events of a run: a stream, or pages").about(events::STREAM);
    events::stream_or_pages(operation, "The run has ended and the client has everything: do not connect again.")
}

pub(crate) fn cancel() -> Operation {
    Operation::new("runs", "cancelRun", "Ask a run to stop")
        .about("Repeats are safe; a run that has ended stays as it is.")
        .query("wait", &wait(), "Seconds for which the answer may be held until the run has ended.")
        .answer(run(200, "It has ended.", examples::cancelled("CANCELLED")))
        .answer(run(202, "It is executed, and was told.", examples::cancelled("RUNNING")))
        .plain_error(Code::ConcurrencyConflict)
}

pub(crate) fn input() -> Operation {
    let body = json!({"content": examples::content("yes")});
    Operation::new("runs", "deliverInput", "Answer what a run has asked its user")
        .about("The same answer again is a success. Without a `question_id` it is for the run's newest question.")
        .body(one::<DeliverInput>(), body)
        .answer(Answer::new(202, "The run goes on.").json(one::<Submitted>(), examples::submitted("QUEUED")).links(
            &["getRun"],
            "run_id",
            "$response.body#/run_id",
        ))
        .error(Code::InvalidStateTransition, "The run does not wait for its user.")
        .error(Code::Conflict, "`question_already_answered`: with other words.")
        .plain_error(Code::ConcurrencyConflict)
        .error(Code::NotFound, "There is no such run, or the question is not this run's.")
}
