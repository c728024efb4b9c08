//! The strings of an action's arguments, as the rules look at them.

use serde_json::Value;

/// Every value in a value, itself included. Without recursion: no nesting is too deep to be decided.
fn values(value: &Value) -> impl Iterator<Item = &Value> {
    let mut open = vec![value];
    std::iter::from_fn(move || {
        let next = open.pop()?;
        match next {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Some(next)
    })
}

/// Every string, key and number (an address can be written as one).
pub(super) fn texts(arguments: &Value) -> impl Iterator<Item = &str> {
    values(arguments).flat_map(|value| match value {
        Value::String(text) => vec![text.as_str()],
        Value::Number(number) => vec![number.as_str()],
        Value::Object(members) => members.keys().map(String::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Array(_) => Vec::new(),
    })
}

/// Every text that may be run: a string, an array of words, or an object that holds a program and its words.
pub(super) fn command_lines(arguments: &Value) -> impl Iterator<Item = String> {
    values(arguments).filter_map(|value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => Some(joined(items.iter())),
        Value::Object(members) => {
            // Members come by their names, in which `args` is before `command`: so the words go last.
            let lists = members.values().filter_map(Value::as_array).flatten();
            Some(joined(members.values().chain(lists)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    })
}

/// The words of code of any language, without what surrounds words there.
pub(super) fn words(code: &str) -> impl Iterator<Item = &str> {
    let around = |c: char| c.is_whitespace() || "'\"`;|&()<>,=".contains(c);
    code.split(around).map(|word| word.trim_start_matches(['@', '['])).filter(|word| !word.is_empty())
}

fn joined<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    values.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}
