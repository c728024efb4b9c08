//! Sessions.

use baton_core::sessions::{CreateSession, SessionView};
use serde_json::json;

use crate::openapi::examples;
use crate::openapi::headers::Header;
use crate::openapi::operation::{Answer, Operation};
use crate::openapi::schemas::one;
use baton_core::Code;

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

pub(crate) fn get() -> Operation {
    Operation::new("sessions", "getSession", "A session").answer(
        Answer::new(200, "The session.").json(one::<SessionView>(), examples::session()).links(
            &["submitMessage", "listRuns", "listApprovals"],
            "session_id",
            "$response.body#/id",
        ),
    )
}
