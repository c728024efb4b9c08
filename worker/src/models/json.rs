//! Providers' JSON, read with patience.

use serde_json::Value;

/// Values in one message at most. A value takes a hundred bytes of memory and may take two of the message, which may be of megabytes.
const VALUES_MAX: usize = 50_000;

/// Tokens of one class that a call may have used. No model reads or writes so many: the number is something else.
const TOKENS_MAX: f64 = 1e9;

/// Parses a message. Half of a surrogate pair, which a model's tokens can be cut into and no string of ours can hold, becomes
/// U+FFFD: a character less is better than no answer.
pub(super) fn parse(text: &str) -> Option<Value> {
    if values(text) > VALUES_MAX {
        return None;
    }
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&without_lone_surrogates(text)).ok())
}

/// How many values a message has at most: each but the first stands behind one of these.
fn values(text: &str) -> usize {
    let (mut values, mut is_string, mut is_escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b',' | b'[' | b'{' if !is_string => values += 1,
            _ => {}
        }
    }
    values
}

fn without_lone_surrogates(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at..];
        let length = match (code_unit(escape), escape.get(6..).and_then(code_unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str(&rest[..at]);
                out.push(char::REPLACEMENT_CHARACTER);
                rest = &escape[6..];
                continue;
            }
            _ => escape.chars().take(2).map(char::len_utf8).sum(),
        };
        out.push_str(&rest[..at + length]);
        rest = &escape[length..];
    }
    out.push_str(rest);
    out
}

/// The value of an escape `\uXXXX` that the text begins with.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

/// A text that says something.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str().filter(|text| !text.is_empty())
}

/// The elements of a list; of what is none, nothing.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A count of tokens, which some servers write as text or with a fraction of zero. None: it is absent, or no count.
pub(super) fn tokens(value: &Value, pointer: &str) -> Option<i64> {
    let count = match value.pointer(pointer)? {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
    ((0.0..=TOKENS_MAX).contains(&count) && count.fract() == 0.0).then_some(count as i64)
}

/// Arguments as they came: a text byte for byte, and where a server sends the object itself, its text.
pub(super) fn arguments(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Arguments of an earlier call as an object. What was none is shown as empty: servers parse them again, and refuse the whole
/// conversation for what they cannot read.
pub(super) fn object(arguments_raw: &str) -> Option<Value> {
    serde_json::from_str(arguments_raw).ok().filter(Value::is_object)
}
