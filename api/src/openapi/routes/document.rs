//! The document itself.

use serde_json::json;

use crate::openapi::operation::{Answer, Operation};

pub(crate) fn get() -> Operation {
    let schema = json!({"type": "object", "required": ["openapi", "info", "paths"]});
    Operation::new("operators", "getDocument", "This document")
        .about("As JSON; `openapi.yaml` in the repository and `agentctl openapi` say the same.")
        .answer(Answer::new(200, "An OpenAPI 3.1 document.").media("application/json", schema, None))
}
