//! From the bytes of a body to a command, or to everything that is wrong with them.

use baton_core::canonical;
use baton_core::error::Problem;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// Longest message about a value: serde's repeat the value.
const MESSAGE_CHARS_MAX: usize = 200;

/// A command, and the canonical text that an idempotency key's hash is made of.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    pub(crate) command: T,
    pub(crate) canonical_text: String,
}

/// Parses a body strictly: no duplicate keys, no NUL, no number without a canonical form, no field that we do not know.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<Parsed<T>, Problem> {
    let at_root = |message: String| Problem { path: String::new(), message };
    let value = canonical::parse(bytes).map_err(|error| at_root(error.to_string()))?;
    let canonical_text = canonical::text(&value).map_err(|error| at_root(error.to_string()))?;
    if !matches!(value, Value::Object(_)) {
        return Err(at_root("a JSON object".into()));
    }
    let command = serde_path_to_error::deserialize(counted(value)).map_err(|error| Problem {
        path: pointer(error.path()),
        message: error.inner().to_string().chars().take(MESSAGE_CHARS_MAX).collect(),
    })?;
    Ok(Parsed { command, canonical_text })
}

/// JSON has one kind of number, in which `3.0` is 3; Rust has two. Beyond 2^53 a number that is written with a point is no count.
fn counted(value: Value) -> Value {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(count) if number.as_i64().is_none() && count.fract() == 0.0 && count.abs() < EXACT_MAX => {
                Value::from(count as i64)
            }
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(counted).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, counted(value))).collect(),
        other => other,
    }
}

/// A JSON pointer (RFC 6901), as far as serde knows the way.
fn pointer(path: &Path) -> String {
    let token = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.replace('~', "~0").replace('/', "~1")),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().filter_map(token).map(|token| format!("/{token}")).collect()
}

#[cfg(test)]
mod tests;
