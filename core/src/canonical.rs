//! Canonical JSON: the one function behind every hash.
//!
//! Keys sorted by code point, no white space, strings in NFC, a number whose value is an integer below 2^53 as an integer,
//! other numbers as RFC 8785 (that is, ECMAScript) writes them, integer literals beyond 2^53 with the digits they came with.
//! `NaN`, infinities and `-0` are refused, and so are duplicate keys, NUL in a string and nesting deeper than 64. UTF-8.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Deepest nesting of arrays and objects. Far beyond what people write, far below what overflows a stack (serde_json's own
/// limit is 128) or a consumer's.
pub const DEPTH_MAX: usize = 64;

/// Integers up to here are exact in every JSON implementation.
const EXACT_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// Why a text has no canonical form. Fixed wording; never repeats the input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCanonical {
    #[error("not valid JSON: {0}")]
    Syntax(String),
    #[error("a number is not finite, or is minus zero")]
    Number,
    #[error("two keys of an object are the same in canonical form")]
    DuplicateKey,
    #[error("a string holds NUL")]
    Nul,
    #[error("nested deeper than {DEPTH_MAX}")]
    TooDeep,
}

/// Parses JSON, refusing what canonical JSON refuses.
///
/// # Errors
/// [`NotCanonical`], with the first thing that is wrong.
pub fn parse(bytes: &[u8]) -> Result<Value, NotCanonical> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth: 0 }.deserialize(&mut deserializer).map_err(|error| refused(&error))?;
    deserializer.end().map_err(|error| refused(&error))?;
    text(&value)?;
    Ok(value)
}

/// The canonical text of a value.
///
/// # Errors
/// [`NotCanonical`], where the value has none.
pub fn text(value: &Value) -> Result<String, NotCanonical> {
    let mut out = String::new();
    write(value, 0, &mut out)?;
    Ok(out)
}

/// SHA-256 of a text, lower-case hexadecimal.
pub fn sha256_hex(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}"); // writing to a String cannot fail
        out
    })
}

fn write(value: &Value, depth: usize, out: &mut String) -> Result<(), NotCanonical> {
    if depth > DEPTH_MAX {
        return Err(NotCanonical::TooDeep);
    }
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(number, out)?,
        Value::String(string) => write_string(&normal(string)?, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, depth + 1, out)?;
            }
            out.push(']');
        }
        Value::Object(members) => {
            // Keys can become equal, and change their order, only by normalization: so normalize, then sort.
            let mut sorted = BTreeMap::new();
            for (key, member) in members {
                if sorted.insert(normal(key)?, member).is_some() {
                    return Err(NotCanonical::DuplicateKey);
                }
            }
            out.push('{');
            for (index, (key, member)) in sorted.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write(member, depth + 1, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn normal(string: &str) -> Result<String, NotCanonical> {
    if string.contains('\0') {
        return Err(NotCanonical::Nul);
    }
    Ok(match is_nfc_quick(string.chars()) {
        IsNormalized::Yes => string.to_owned(),
        IsNormalized::No | IsNormalized::Maybe => string.nfc().collect(),
    })
}

fn write_string(string: &str, out: &mut String) {
    out.push_str(&Value::String(string.to_owned()).to_string());
}

fn write_number(number: &Number, out: &mut String) -> Result<(), NotCanonical> {
    let literal = number.as_str();
    let value: f64 = literal.parse().map_err(|_| NotCanonical::Number)?;
    if !value.is_finite() || (value == 0.0 && literal.starts_with('-')) {
        return Err(NotCanonical::Number);
    }
    let is_integer_literal = literal.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if is_integer_literal && value.abs() >= EXACT_INTEGER_MAX {
        out.push_str(literal);
    } else {
        // ECMAScript writes an integral value below 2^53 as an integer, so one formatter serves both rules.
        out.push_str(ryu_js::Buffer::new().format_finite(value));
    }
    Ok(())
}

fn refused(error: &serde_json::Error) -> NotCanonical {
    let text = error.to_string();
    // The markers come back through serde's string errors, which is the only way out of a visitor.
    match text.split_once(" at line ").map_or(text.as_str(), |(message, _)| message) {
        DUPLICATE => NotCanonical::DuplicateKey,
        DEEP => NotCanonical::TooDeep,
        _ if text.starts_with("recursion limit") => NotCanonical::TooDeep,
        _ => NotCanonical::Syntax(format!("line {}, column {}", error.line(), error.column())),
    }
}

const DUPLICATE: &str = "duplicate key";
const DEEP: &str = "too deep";

/// Deserializes a `Value` as serde_json does, but refuses duplicate keys and deep nesting while it reads, so that a hostile
/// body costs no more than its length.
#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        if self.depth == DEPTH_MAX { Err(E::custom(DEEP)) } else { Ok(Self { depth: self.depth + 1 }) }
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut out = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            out.push(item);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut out = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            // With arbitrary precision serde_json hands a number that is no small integer over as a map with one private key.
            if key == NUMBER_TOKEN && out.is_empty() {
                let literal: String = members.next_value()?;
                return literal.parse().map(Value::Number).map_err(de::Error::custom);
            }
            if out.contains_key(&key) {
                return Err(de::Error::custom(DUPLICATE));
            }
            out.insert(key, members.next_value_seed(inner)?);
        }
        Ok(Value::Object(out))
    }
}

/// serde_json's private name for a number with its digits; a test notices should it change.
const NUMBER_TOKEN: &str = "$serde_json::private::Number";

#[cfg(test)]
mod tests;
