//! A result that is too long to show: the whole goes to an artifact, the model gets its head and its tail.

use bytes::Bytes;
use serde_json::Value;

use crate::artifacts::{ArtifactWriter, NewArtifact};
use crate::content::{fit, fit_end};
use crate::tools::failure::ReasonCode;
use crate::tools::pipeline::CallResult;
use crate::tools::spec::ToolSpec;

/// Parts of what may be shown, in percent. What is left is room for the line between.
const HEAD_PERCENT: usize = 60;
const TAIL_PERCENT: usize = 20;

/// No summary: what is shown is what was there.
pub(super) async fn excerpt(
    spec: &ToolSpec,
    text: &str,
    artifacts: &ArtifactWriter,
    artifact: Option<NewArtifact>,
) -> Result<CallResult, ReasonCode> {
    let (head, _) = fit(text, spec.max_output_bytes * HEAD_PERCENT / 100);
    let tail = fit_end(text, spec.max_output_bytes * TAIL_PERCENT / 100);
    let left_out = text.len() - head.len() - tail.len();
    let value = Value::String(format!("{head}\n[… {left_out} bytes left out; the whole is in the artifact …]\n{tail}"));
    // A call has one artifact: one that stored its own bytes keeps them, and what is left out of its result is lost.
    let artifact = match artifact {
        Some(artifact) => artifact,
        None => {
            let name = format!("{}-result.json", spec.name);
            artifacts.put_bytes(&name, "application/json", Bytes::from(text.to_owned())).await?
        }
    };
    Ok(CallResult { value, truncated: true, artifact: Some(artifact) })
}
