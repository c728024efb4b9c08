//! The layer that no file can loosen: rules in the binary.
//!
//! They are tripwires for what is never right, not walls: names resolve to addresses and programs compute their words, so the
//! outbound guard checks where a connection goes and the sandbox what code can reach.

mod addresses;
mod commands;
mod paths;
mod strings;
mod table;

use serde_json::{Value, json};

use crate::policy::decide::{Action, Effect, Verdict};
use crate::tools::SideEffect;
pub(super) use table::RULES;

/// Raised by every change of what a rule blocks, so that decisions under the old rules are told from those under the new.
const REVISION: u32 = 1;

/// A rule, with what it is for and what it must leave alone.
pub(super) struct Rule {
    pub(super) id: &'static str,
    /// For people.
    explanation: &'static str,
    /// The classes that it looks at.
    classes: &'static [SideEffect],
    matches: fn(&Action<'_>) -> bool,
    /// What it must block.
    pub(super) targets: &'static [Example],
    /// What is close and must pass every rule here.
    pub(super) near_misses: &'static [Example],
}

/// A class and arguments as JSON.
pub(super) type Example = (SideEffect, &'static str);

impl Rule {
    pub(super) fn blocks(&self, action: &Action<'_>) -> bool {
        self.classes.contains(&action.side_effect) && (self.matches)(action)
    }
}

/// Deny, or nothing.
pub(super) fn verdict(action: &Action<'_>) -> Option<Verdict> {
    let rule = RULES.iter().find(|rule| rule.blocks(action))?;
    Some(Verdict { effect: Effect::Deny, explanation: rule.explanation.to_owned() })
}

/// All that decides, for the hash. The examples are in it because they say what a rule means.
pub(super) fn identity() -> Value {
    let rules: Vec<Value> = RULES.iter().map(|rule| json!([rule.id, rule.classes, rule.targets, rule.near_misses])).collect();
    json!({"revision": REVISION, "rules": rules})
}

#[cfg(test)]
mod tests;
