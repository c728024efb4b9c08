//! The script of an agent: what the built-in model `scripted` says. The player is the worker's; the file is checked here.

use std::fmt;

use regex::{Captures, Regex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Problem;
use crate::events::{Stop, TokenUsage};

/// Turns to play when the user's message matches. Scripts are tried in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Unanchored, against the text of the run's user message.
    pub r#match: Pattern,
    /// The turn played is the number of turns that the model has completed in this run.
    #[serde(default)]
    pub turn: Vec<ScriptTurn>,
}

/// A pattern of the `regex` crate, compiled once for all runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Pattern {
    text: String,
    /// None: the text is no pattern, which is a problem of its file.
    regex: Option<Regex>,
}

impl Pattern {
    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.regex.as_ref()?.captures(text)
    }
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Self { regex: Regex::new(&text).ok(), text }
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptTurn {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Instead of `text`, where the last call has no result: denied, failed or of unknown outcome.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text_if_failed: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ScriptCall>,
    /// Characters of a delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<usize>,
    /// Before each delta but the first, so that a person can see the text arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_delay_ms: Option<u64>,
    /// Before the turn's first byte; ends at once on cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Attempts that the fault spoils; without it, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_times: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptCall {
    pub name: String,
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Instead of `arguments`, verbatim: for arguments that are not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_arguments: Option<String>,
}

/// What a provider does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    Transient,
    Permanent,
    Timeout,
    Malformed,
    Empty,
    /// The stream ends in the middle of the text.
    Cut,
}

impl Script {
    pub(super) fn problems(&self, index: usize) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut problem = |path: String, message: String| problems.push(Problem { path, message });
        let Some(regex) = &self.r#match.regex else {
            problem(format!("/script/{index}/match"), "a regular expression".into());
            return problems;
        };
        let captures: Vec<String> = regex.capture_names().flatten().map(str::to_owned).collect();
        for (turn_index, turn) in self.turn.iter().enumerate() {
            for text in turn.texts() {
                for name in Template::names(text) {
                    if !is_known(name, &captures) {
                        problem(
                            format!("/script/{index}/turn/{turn_index}"),
                            format!("`${{{name}}}` is not a capture, `input`, `answer` or `result.…`"),
                        );
                    }
                }
            }
            if turn.chunk == Some(0) {
                problem(format!("/script/{index}/turn/{turn_index}/chunk"), "above zero".into());
            }
        }
        problems
    }
}

fn is_known(name: &str, captures: &[String]) -> bool {
    name == "input"
        || name == "answer"
        || name.strip_prefix("result.").is_some_and(|field| !field.is_empty())
        || captures.iter().any(|capture| capture == name)
}

impl ScriptTurn {
    /// Every text with placeholders.
    fn texts(&self) -> Vec<&str> {
        let mut texts = vec![self.text.as_str(), self.text_if_failed.as_str(), self.reasoning.as_str()];
        for call in &self.tool_calls {
            texts.extend(call.raw_arguments.as_deref());
            call.arguments.values().for_each(|value| strings(value, &mut texts));
        }
        texts
    }
}

fn strings<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
        Value::Object(members) => members.values().for_each(|member| strings(member, out)),
        _ => {}
    }
}

/// A text with `${name}` in it.
#[derive(Debug, Clone, Copy)]
pub struct Template<'a>(pub &'a str);

impl<'a> Template<'a> {
    fn names(text: &'a str) -> Vec<&'a str> {
        let mut names = Vec::new();
        Template(text).each(|_, name| names.extend(name));
        names
    }

    /// The text with every placeholder replaced by what `value` says, or by nothing.
    pub fn render(self, value: impl Fn(&str) -> Option<String>) -> String {
        let mut out = String::new();
        self.each(|literal, name| {
            out.push_str(literal);
            out.push_str(&name.and_then(&value).unwrap_or_default());
        });
        out
    }

    fn each(self, mut part: impl FnMut(&'a str, Option<&'a str>)) {
        let mut rest = self.0;
        while let Some(begin) = rest.find("${") {
            let Some(length) = rest[begin..].find('}') else { break };
            part(&rest[..begin], Some(&rest[begin + 2..begin + length]));
            rest = &rest[begin + length + 1..];
        }
        part(rest, None);
    }
}

#[cfg(test)]
mod tests;
