//! `demo.external_write`: `{"content"}` to `{"written": true}`. Stands for everything that cannot be undone: each line of its
//! file is one real effect, so that tests and people can count them.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::error::chain;
use crate::fault::Point;
use crate::scope::Scope;
use crate::tools::failure::ReasonCode;
use crate::tools::spec::{Idempotency, OutputTrust, Parallel, Risk, SideEffect, ToolKind, ToolSpec};
use crate::tools::tool::{Tool, ToolAnswer, ToolContext, text_argument};

const CONTENT_CHARS_MAX: usize = 10_000;

#[derive(Debug)]
pub(super) struct ExternalWrite {
    spec: ToolSpec,
    /// None: not set up.
    effects_file: Option<PathBuf>,
}

impl ExternalWrite {
    pub(super) fn new(effects_file: Option<PathBuf>) -> Self {
        let input_schema = json!({
            "type": "object",
            "properties": {"content": {"type": "string", "maxLength": CONTENT_CHARS_MAX}},
            "required": ["content"],
            "additionalProperties": false,
        });
        let output_schema = json!({
            "type": "object",
            "properties": {"written": {"const": true}},
            "required": ["written"],
            "additionalProperties": false,
        });
        let spec = ToolSpec {
            name: "demo.external_write",
            version: "1",
            description: "Writes a line to a system outside, which cannot be undone.",
            input_schema,
            output_schema: Some(output_schema),
            side_effect: SideEffect::ExternalWrite,
            risk: Risk::Medium,
            idempotency: Idempotency::NonIdempotent,
            required_scopes: &[Scope::DemoWrite],
            timeout: Duration::from_secs(10),
            max_output_bytes: 1_024,
            parallel: Parallel::Never,
            kind: ToolKind::Capability,
            output_trust: OutputTrust::Own,
        };
        Self { spec, effects_file }
    }
}

impl Tool for ExternalWrite {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: &'a Value, context: ToolContext<'a>) -> BoxFuture<'a, Result<ToolAnswer, ReasonCode>> {
        async move {
            let file = self.effects_file.clone().ok_or(ReasonCode::NotConfigured)?;
            let content = text_argument(arguments, "content")?;
            let line = format!("{}\n", json!({"content": content, "key": context.idempotency_key}));
            context.mark_effect_sent().await?;
            // On a thread that nobody can stop: dropped here, the line is still written whole.
            let written = tokio::task::spawn_blocking(move || append(&file, line.as_bytes()));
            written.await.map_err(|_| ReasonCode::Unknown)??;
            // The line is out: from here on a failure is not one of the effect.
            context.faults.hit(Point::EffectSent).await.map_err(|_| ReasonCode::Unknown)?;
            Ok(ToolAnswer::value(json!({"written": true})))
        }
        .boxed()
    }
}

/// One write at the end of the file: lines of several processes never mix. `Unknown` once something may have been written.
fn append(file: &Path, line: &[u8]) -> Result<(), ReasonCode> {
    let mut open = OpenOptions::new().append(true).create(true).open(file).map_err(|error| {
        tracing::warn!(error = chain(&error), "`demo.effects_file` cannot be opened");
        ReasonCode::ToolExecutionError
    })?;
    let written = open.write(line).and_then(|written| open.sync_all().map(|()| written)).map_err(|error| {
        tracing::warn!(error = chain(&error), "`demo.effects_file` cannot be written");
        ReasonCode::Unknown
    })?;
    if written == line.len() { Ok(()) } else { Err(ReasonCode::Unknown) }
}

#[cfg(test)]
mod tests;
