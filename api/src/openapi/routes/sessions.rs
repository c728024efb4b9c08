//! Sessions.

use baton_core::Code;
use baton_core::sessions::{CreateSession, SessionView};
use serde_json::{Value, json};

use crate::openapi::headers::Header;
use crate::openapi::operation::{Answer, Operation};
use crate::openapi::schemas::{one, page_of};
use crate::openapi::{events, examples};

pub(crate) fn create() -> Operation {
    let created = |status, description| {
        Answer::new(status, description).json(one::<SessionView>(), examples::session()).links(
            &["getSession", "submitMessage", "listRuns"],
            "session_id",
            "$response.body#/id",
        )
    };
    Operation::new("sessions", "createSession", "Begin a conversation with an agent")
        .about("The agent's version is the current one, and stays the session's. `metadata` takes at most 8 KiB.")
        .keyed()
        .body(one::<CreateSession>(), json!({"agent_id": "demo", "metadata": {"ticket": "DOC-17"}}))
        .answer(created(201, "The new session.").headers(&[Header::Location]))
        .answer(
            created(200, "What an earlier request with the same key had created, as it is now.")
                .headers(&[Header::Location, Header::IdempotencyReplayed]),
        )
        .error(Code::NotFound, "There is no such agent, or the key's session was deleted.")
}

pub(crate) fn list() -> Operation {
    Operation::new("sessions", "listSessions", "Sessions, newest first")
        .about("The caller's own; with `operator.read`, all.")
        .paged()
        .answer(
            Answer::new(200, "A page of sessions.").json(page_of::<SessionView>(), examples::page(&examples::session())).links(
                &["getSession", "listMessages"],
                "session_id",
                "$response.body#/items/0/id",
            ),
        )
}

pub(crate) fn get() -> Operation {
    Operation::new("sessions", "getSession", "A session").answer(
        Answer::new(200, "The session.").json(one::<SessionView>(), examples::session()).links(
            &["submitMessage", "listRuns", "listApprovals"],
            "session_id",
            "$response.body#/id",
        ),
    )
}

const BUSY: &str = "`active_run_exists`: a run of the session is not finished.";

pub(crate) fn close() -> Operation {
    let mut closed = examples::session();
    closed["status"] = "CLOSED".into();
    closed["active_run_id"] = Value::Null;
    Operation::new("sessions", "closeSession", "Close a session, for good")
        .about("It takes no more messages, and its streams end. Repeats are safe.")
        .answer(Answer::new(200, "The closed session.").json(one::<SessionView>(), closed))
        .error(Code::Conflict, BUSY)
        .plain_error(Code::ConcurrencyConflict)
}

pub(crate) fn delete() -> Operation {
    Operation::new("sessions", "deleteSession", "Delete a session and everything in it")
        .about("Its runs, events, approvals, keys and artifacts are gone with the answer; the artifacts' bytes soon after.")
        .answer(Answer::new(204, "It is gone."))
        .error(Code::Conflict, BUSY)
        .plain_error(Code::ConcurrencyConflict)
}

pub(crate) fn events() -> Operation {
    let operation =
        Operation::new("sessions", "listSessionEvents", "The events of a session, of all its runs: a stream, or pages")
            .about("As the stream of a run, without gaps in `sequence`, until the session is closed.");
    events::stream_or_pages(operation, "The session is closed and the client has everything: do not connect again.")
}
