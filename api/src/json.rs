//! From the bytes of a body to a command, or to everything that is wrong with them.

use baton_core::canonical;
use baton_core::error::Problem;
use serde_json::Value;

use crate::command::{self, Command};

/// A command, and the canonical text that an idempotency key's hash is made of.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    pub(crate) command: T,
    pub(crate) canonical_text: String,
}

/// Parses a body strictly: no duplicate keys, no NUL, no number without a canonical form, nothing that its schema does not have.
pub(crate) fn parse<T: Command>(bytes: &[u8]) -> Result<Parsed<T>, Vec<Problem>> {
    let at_root = |message: String| vec![Problem { path: String::new(), message }];
    let value = canonical::parse(bytes).map_err(|error| at_root(error.to_string()))?;
    let canonical_text = canonical::text(&value).map_err(|error| at_root(error.to_string()))?;
    if !matches!(value, Value::Object(_)) {
        return Err(at_root("a JSON object".into()));
    }
    let value = counted(value);
    let problems = command::problems(T::schema(), &value);
    if !problems.is_empty() {
        return Err(problems);
    }
    // What the schema takes and the type does not is a defect of the schema, and all the same no reason to show serde's words.
    let command = serde_json::from_value(value).map_err(|_| at_root("not as the document has it".into()))?;
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

#[cfg(test)]
mod tests;
