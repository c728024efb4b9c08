//! Agents.

use baton_core::agents::AgentView;

use crate::openapi::examples;
use crate::openapi::operation::{Answer, Operation};
use crate::openapi::schemas::{one, page_of};

pub(crate) fn list() -> Operation {
    Operation::new("agents", "listAgents", "All agents").answer(
        Answer::new(200, "One page, of all of them.").json(page_of::<AgentView>(), examples::page(&examples::agent())).links(
            &["getAgent"],
            "agent_id",
            "$response.body#/items/0/id",
        ),
    )
}

pub(crate) fn get() -> Operation {
    Operation::new("agents", "getAgent", "An agent")
        .answer(Answer::new(200, "The agent, as a new session would have it.").json(one::<AgentView>(), examples::agent()))
}
