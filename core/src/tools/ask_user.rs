//! `conversation.ask_user`: the run waits for its user, whose answer is the result.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::failure::ReasonCode;
use crate::tools::spec::{Idempotency, OutputTrust, Parallel, Risk, SideEffect, ToolKind, ToolSpec};
use crate::tools::tool::{Question, Tool, ToolAnswer, ToolContext};

const QUESTION_CHARS_MAX: usize = 4_000;
const CHOICES_MAX: usize = 20;
const CHOICE_CHARS_MAX: usize = 200;

#[derive(Debug)]
pub(super) struct AskUser {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    question: String,
    choices: Option<Vec<String>>,
}

impl AskUser {
    pub(super) fn new() -> Self {
        let input_schema = json!({
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1, "maxLength": QUESTION_CHARS_MAX},
                "choices": {
                    "type": "array", "minItems": 1, "maxItems": CHOICES_MAX,
                    "items": {"type": "string", "minLength": 1, "maxLength": CHOICE_CHARS_MAX},
                    "description": "Suggestions; the user may answer anything",
                },
            },
            "required": ["question"],
            "additionalProperties": false,
        });
        Self {
            spec: ToolSpec {
                name: "conversation.ask_user",
                version: "1",
                description: "Asks the user a question and waits for the answer.",
                input_schema,
                // The result is what the user says, and that is not the tool's to promise.
                output_schema: None,
                side_effect: SideEffect::None,
                risk: Risk::Low,
                idempotency: Idempotency::ReadOnly,
                required_scopes: &[],
                timeout: Duration::from_secs(1),
                max_output_bytes: 64 * 1_024,
                parallel: Parallel::Never,
                kind: ToolKind::Control,
                output_trust: OutputTrust::ExternalUntrusted,
            },
        }
    }
}

impl Tool for AskUser {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: &'a Value, _: ToolContext<'a>) -> BoxFuture<'a, Result<ToolAnswer, ReasonCode>> {
        async move {
            let Arguments { question, choices } = Arguments::deserialize(arguments).map_err(|_| ReasonCode::InvalidArguments)?;
            Ok(ToolAnswer::Ask(Question { question, choices }))
        }
        .boxed()
    }
}
