//! `system.current_time`: `{"timezone"}`, an IANA name, to `{"time", "timezone"}`.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::tools::failure::ReasonCode;
use crate::tools::spec::{Idempotency, OutputTrust, Parallel, Risk, SideEffect, ToolKind, ToolSpec};
use crate::tools::tool::{Tool, ToolAnswer, ToolContext, text_argument};

#[derive(Debug)]
pub(super) struct CurrentTime {
    spec: ToolSpec,
}

impl CurrentTime {
    pub(super) fn new() -> Self {
        let input_schema = json!({
            "type": "object",
            "properties": {"timezone": {
                "type": "string", "minLength": 1, "maxLength": 64,
                "description": "An IANA name: Europe/Berlin, or UTC",
            }},
            "required": ["timezone"],
            "additionalProperties": false,
        });
        let output_schema = json!({
            "type": "object",
            "properties": {"time": {"type": "string"}, "timezone": {"type": "string"}},
            "required": ["time", "timezone"],
            "additionalProperties": false,
        });
        Self {
            spec: ToolSpec {
                name: "system.current_time",
                version: "1",
                description: "The date and time in a time zone.",
                input_schema,
                output_schema: Some(output_schema),
                side_effect: SideEffect::None,
                risk: Risk::Low,
                idempotency: Idempotency::ReadOnly,
                required_scopes: &[],
                timeout: Duration::from_secs(1),
                max_output_bytes: 1_024,
                parallel: Parallel::Allowed,
                kind: ToolKind::Capability,
                output_trust: OutputTrust::Own,
            },
        }
    }
}

impl Tool for CurrentTime {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: &'a Value, context: ToolContext<'a>) -> BoxFuture<'a, Result<ToolAnswer, ReasonCode>> {
        async move { Ok(ToolAnswer::value(time_in(text_argument(arguments, "timezone")?, context.clock)?)) }.boxed()
    }
}

fn time_in(timezone: &str, clock: &Clock) -> Result<Value, ReasonCode> {
    let zone = TimeZone::get(timezone).map_err(|_| ReasonCode::TimezoneUnknown)?;
    let now = Timestamp::from_second(clock.now().unix_timestamp()).map_err(|_| ReasonCode::ToolExecutionError)?;
    let name = zone.iana_name().unwrap_or(timezone).to_owned();
    Ok(json!({"time": now.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(), "timezone": name}))
}

#[cfg(test)]
mod tests;
