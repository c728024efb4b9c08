//! Messages.

use baton_core::Code;
use baton_core::runs::{SubmitMessage, Submitted};
use baton_core::sessions::TranscriptItem;
use serde_json::json;

use crate::openapi::headers::Header;
use crate::openapi::operation::{Answer, Operation};
use crate::openapi::schemas::{one, page_of};
use crate::openapi::{events, examples};

pub(crate) fn list() -> Operation {
    Operation::new("sessions", "listMessages", "What was said in a session, oldest first")
        .about("Messages of people and of the agent, its questions and the answers. A page of long messages may hold fewer than asked for.")
        .paged()
        .answer(Answer::new(200, "A page of the transcript.").json(page_of::<TranscriptItem>(), examples::page(&examples::transcript_item())))
}

pub(crate) fn submit() -> Operation {
    let submitted = |status, description: &str| {
        Answer::new(status, description).json(one::<Submitted>(), examples::submitted("QUEUED")).links(
            &["getRun", "listRunEvents", "explainRun", "cancelRun", "deliverInput", "listApprovals"],
            "run_id",
            "$response.body#/run_id",
        )
    };
    let streamed = "With `Accept: text/event-stream`, which also needs `run.read`: the stream of the run, from its start. Who goes \
                    away cancels nothing. Else, with a known key: what it had created, as it is now.";
    Operation::new("runs", "submitMessage", "Send a message, which becomes a run")
        .about(
            "The run is stored before the answer. Where the session's run waits for its user, the message is the answer to its \
             question, and that run is returned. The serialized `content` takes at most 200,000 bytes, `metadata` 8 KiB; a limit \
             above the agent's is the agent's.",
        )
        .keyed()
        .header(
            "traceparent",
            &json!({"type": "string"}),
            "A trace (W3C) that the run joins; what is none is ignored.",
        )
        .body(one::<SubmitMessage>(), json!({"content": examples::content("Publish the release note"), "limits": {"max_cost_usd": "0.50"}}))
        .answer(submitted(202, "The run that will work on it.").headers(&[Header::Location]))
        .answer(submitted(200, streamed).described("text/event-stream", events::stream(), events::stream_example()))
        .plain_error(Code::RateLimited)
        .error(
            Code::Conflict,
            "`active_run_exists`: the session's run is not finished and asks nothing. `session_closed`. `idempotency_key_reused`.",
        )
}
