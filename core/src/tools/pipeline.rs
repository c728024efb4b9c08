//! The one call site of every tool.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::clock::Clock;
use crate::error::Code;
use crate::tools::{calculate, current_time};

/// What a tool may use, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct ToolContext<'a> {
    pub clock: &'a Clock,
    /// The names that the run's agent has.
    pub enabled: &'a [String],
}

/// How a call ended. A failure is shown to the model, and the run goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolOutcome {
    Completed { result: Value },
    Failed { reason_code: &'static str, message: String },
}

/// Resolves, checks and executes one call. `arguments` is null where the model's text was not a JSON object.
#[expect(clippy::unused_async, reason = "the tools of today answer at once; those of tomorrow wait for the world")]
pub async fn execute(context: ToolContext<'_>, name: &str, arguments: &Value) -> ToolOutcome {
    if !context.enabled.iter().any(|enabled| enabled == name) {
        return not_found();
    }
    let answer = match name {
        calculate::NAME => parse(arguments).and_then(|arguments| calculate::call(&arguments)),
        current_time::NAME => parse(arguments).and_then(|arguments| current_time::call(&arguments, context.clock)),
        _ => return not_found(),
    };
    match answer {
        Ok(result) => ToolOutcome::Completed { result },
        Err(Refusal::Arguments) => failed("invalid_arguments", "The arguments do not fit the tool's schema."),
        Err(Refusal::Execution(message)) => failed(Code::ToolExecutionError.as_str(), message),
    }
}

/// Why a tool does not answer. Fixed wording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Arguments,
    Execution(&'static str),
}

fn parse<T: DeserializeOwned>(arguments: &Value) -> Result<T, Refusal> {
    T::deserialize(arguments).map_err(|_| Refusal::Arguments)
}

fn not_found() -> ToolOutcome {
    failed(Code::ToolNotFound.as_str(), "There is no such tool.")
}

fn failed(reason_code: &'static str, message: &str) -> ToolOutcome {
    ToolOutcome::Failed { reason_code, message: message.to_owned() }
}
