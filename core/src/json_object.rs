//! JSON objects that clients give us to keep: stored as canonical text, returned byte for byte.

use serde_json::{Map, Value};

use crate::canonical;
use crate::error::Problem;

/// Bytes of a session's or a run's metadata; the schema's CHECKs say the same.
pub(crate) const METADATA_BYTES_MAX: usize = 8 * 1024;

/// The canonical text of metadata.
pub(crate) fn metadata_text(metadata: &Map<String, Value>) -> Result<String, Problem> {
    let problem = |message: String| Problem { path: "/metadata".into(), message };
    let text = canonical::text(&Value::Object(metadata.clone())).map_err(|error| problem(error.to_string()))?;
    if text.len() > METADATA_BYTES_MAX {
        return Err(problem(format!("at most {METADATA_BYTES_MAX} bytes")));
    }
    Ok(text)
}
