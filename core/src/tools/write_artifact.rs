//! `artifact.write`: `{"name", "media_type"?, "content", "encoding"?}` to `{"artifact_id", "name", "media_type", "sha256",
//! "size_bytes"}`.
//!
//! Idempotent: the same call writes the same bytes to the same place.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::scope::Scope;
use crate::tools::failure::ReasonCode;
use crate::tools::spec::{Idempotency, OutputTrust, Parallel, Risk, SideEffect, ToolKind, ToolSpec};
use crate::tools::tool::{Tool, ToolAnswer, ToolContext};

const MEDIA_TYPE_DEFAULT: &str = "text/plain; charset=utf-8";

#[derive(Debug)]
pub(super) struct WriteArtifact {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    name: String,
    media_type: Option<String>,
    content: String,
    #[serde(default)]
    encoding: Encoding,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Encoding {
    #[default]
    Utf8,
    Base64,
}

impl WriteArtifact {
    pub(super) fn new() -> Self {
        let input_schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 255, "description": "A file name without path"},
                "media_type": {"type": "string", "minLength": 1, "maxLength": 255, "default": MEDIA_TYPE_DEFAULT},
                "content": {"type": "string"},
                "encoding": {
                    "enum": ["utf8", "base64"], "default": "utf8",
                    "description": "base64 for bytes that are not text",
                },
            },
            "required": ["name", "content"],
            "additionalProperties": false,
        });
        let output_schema = json!({
            "type": "object",
            "properties": {
                "artifact_id": {"type": "string"},
                "name": {"type": "string"},
                "media_type": {"type": "string"},
                "sha256": {"type": "string"},
                "size_bytes": {"type": "integer", "minimum": 0},
            },
            "required": ["artifact_id", "name", "media_type", "sha256", "size_bytes"],
            "additionalProperties": false,
        });
        Self {
            spec: ToolSpec {
                name: "artifact.write",
                version: "1",
                description: "Stores a file for the user.",
                input_schema,
                output_schema: Some(output_schema),
                side_effect: SideEffect::WorkspaceWrite,
                risk: Risk::Low,
                idempotency: Idempotency::Idempotent,
                required_scopes: &[Scope::ArtifactWrite],
                timeout: Duration::from_secs(30),
                max_output_bytes: 4 * 1_024,
                parallel: Parallel::Never,
                kind: ToolKind::Capability,
                output_trust: OutputTrust::Own,
            },
        }
    }
}

impl Tool for WriteArtifact {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: &'a Value, context: ToolContext<'a>) -> BoxFuture<'a, Result<ToolAnswer, ReasonCode>> {
        async move {
            let arguments = Arguments::deserialize(arguments).map_err(|_| ReasonCode::InvalidArguments)?;
            let bytes = match arguments.encoding {
                Encoding::Utf8 => Bytes::from(arguments.content),
                Encoding::Base64 => STANDARD.decode(arguments.content).map_err(|_| ReasonCode::ArtifactInvalid)?.into(),
            };
            let media_type = arguments.media_type.as_deref().unwrap_or(MEDIA_TYPE_DEFAULT);
            let artifact = context.artifacts.put_bytes(&arguments.name, media_type, bytes).await?;
            let value = json!({
                "artifact_id": artifact.id,
                "name": artifact.name,
                "media_type": artifact.media_type,
                "sha256": artifact.sha256,
                "size_bytes": artifact.size_bytes,
            });
            Ok(ToolAnswer::Result { value, artifact: Some(artifact) })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
