//! A profile: one decision for each class of side effect, with refinements.
//!
//! It is read by hand and not by a derived parser, because it names everything that is wrong at once.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toml::{Table, Value as Toml};

use crate::error::Problem;
use crate::policy::decide::{Action, Effect, Verdict};
use crate::policy::tool_name::{TOOL_NAME, is_tool_name};
use crate::tools::{Risk, SideEffect};

const CLASSES: usize = SideEffect::ALL.len();

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) name: String,
    pub(super) require_distinct_approver: bool,
    /// In the order of [`SideEffect::ALL`]: a class without a decision cannot be written down.
    classes: [Effect; CLASSES],
    pairs: BTreeMap<(SideEffect, Risk), Effect>,
    tools: BTreeMap<String, Effect>,
}

impl Profile {
    /// Everything that is wrong with a file, at once.
    pub(super) fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let table: Table =
            text.parse().map_err(|error: toml::de::Error| vec![Problem { path: String::new(), message: error.to_string() }])?;
        Reader::default().profile(&table)
    }

    /// The most specific decision: of the tool, else of the class at this risk, else of the class. A refinement may loosen,
    /// since who writes the one writes the other.
    pub(super) fn verdict(&self, action: &Action<'_>) -> Verdict {
        let of_tool = self.tools.get(action.tool_name);
        let of_pair = self.pairs.get(&(action.side_effect, action.risk));
        let effect = of_tool.or(of_pair).copied().unwrap_or(self.classes[action.side_effect as usize]);
        let subject = match (of_tool, of_pair) {
            (Some(_), _) => "this tool".to_owned(),
            (None, Some(_)) => format!("calls of class `{}` and risk `{}`", action.side_effect, action.risk),
            (None, None) => format!("calls of class `{}`", action.side_effect),
        };
        Verdict { effect, explanation: format!("The policy profile `{}` {} {subject}.", self.name, effect.verb()) }
    }

    /// All that decides, for the hash.
    pub(super) fn identity(&self) -> Value {
        let classes: BTreeMap<_, _> = SideEffect::ALL.iter().zip(self.classes).collect();
        let pairs: Vec<Value> = self.pairs.iter().map(|((class, risk), effect)| json!([class, risk, effect])).collect();
        json!({
            "name": self.name,
            "require_distinct_approver": self.require_distinct_approver,
            "classes": classes,
            "pairs": pairs,
            "tools": self.tools,
        })
    }
}

/// Reads on after a problem, so that one start names them all. What it returns meanwhile is thrown away.
#[derive(Default)]
struct Reader {
    problems: Vec<Problem>,
}

impl Reader {
    fn profile(mut self, table: &Table) -> Result<Profile, Vec<Problem>> {
        self.known(table, "", &["name", "require_distinct_approver", "classes", "rule"]);
        let name = self.name(table.get("name"));
        let require_distinct_approver = self.flag(table.get("require_distinct_approver"));
        let classes = self.classes(table.get("classes"));
        let (pairs, tools) = self.rules(table.get("rule"));
        if self.problems.is_empty() {
            Ok(Profile { name, require_distinct_approver, classes, pairs, tools })
        } else {
            Err(self.problems)
        }
    }

    fn name(&mut self, value: Option<&Toml>) -> String {
        let name = value.and_then(Toml::as_str).unwrap_or_default();
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        if !(1..=64).contains(&name.len()) || !name.bytes().all(fits) {
            self.wrong("/name", "1 to 64 of a-z, 0-9, _ and -");
        }
        name.to_owned()
    }

    fn flag(&mut self, value: Option<&Toml>) -> bool {
        let flag = value.map_or(Some(false), Toml::as_bool);
        flag.unwrap_or_else(|| {
            self.wrong("/require_distinct_approver", "true or false");
            false
        })
    }

    fn classes(&mut self, value: Option<&Toml>) -> [Effect; CLASSES] {
        let nothing = Table::new();
        let table = value.and_then(Toml::as_table).unwrap_or(&nothing);
        let known: Vec<&str> = SideEffect::ALL.iter().map(|class| class.as_str()).collect();
        self.known(table, "/classes", &known);
        let mut effects = [Effect::Deny; CLASSES];
        for class in SideEffect::ALL {
            effects[*class as usize] = self.word(table, "/classes", class.as_str()).unwrap_or(Effect::Deny);
        }
        effects
    }

    fn rules(&mut self, value: Option<&Toml>) -> (BTreeMap<(SideEffect, Risk), Effect>, BTreeMap<String, Effect>) {
        let (mut pairs, mut tools) = (BTreeMap::new(), BTreeMap::new());
        let items = match value {
            None => &[][..],
            Some(Toml::Array(items)) => items,
            Some(_) => {
                self.wrong("/rule", "an array of tables, each `[[rule]]`");
                &[]
            }
        };
        for (index, item) in items.iter().enumerate() {
            let path = format!("/rule/{index}");
            let Some(rule) = item.as_table() else {
                self.wrong(&path, "a table");
                continue;
            };
            self.known(rule, &path, &["class", "risk", "tool", "decision"]);
            let effect = self.word(rule, &path, "decision").unwrap_or(Effect::Deny);
            let repeated = if let Some(tool) = self.subject(rule, &path) {
                tools.insert(tool, effect).is_some()
            } else if rule.contains_key("tool") {
                false
            } else {
                let pair = (self.word(rule, &path, "class"), self.word(rule, &path, "risk"));
                matches!(pair, (Some(class), Some(risk)) if pairs.insert((class, risk), effect).is_some())
            };
            if repeated {
                self.wrong(&path, "another rule decides the same");
            }
        }
        (pairs, tools)
    }

    /// The tool that a rule is about; a rule about none is about a class and a risk, never about a risk alone.
    fn subject(&mut self, rule: &Table, path: &str) -> Option<String> {
        let tool = rule.get("tool")?;
        if rule.contains_key("class") || rule.contains_key("risk") {
            self.wrong(path, "`tool`, or `class` and `risk`, not both");
        }
        let name = tool.as_str().filter(|name| is_tool_name(name));
        if name.is_none() {
            self.wrong(&format!("{path}/tool"), TOOL_NAME);
        }
        name.map(str::to_owned)
    }

    /// A word of a closed set, which must be there.
    fn word<W: std::str::FromStr<Err = crate::UnknownWord>>(&mut self, table: &Table, path: &str, key: &str) -> Option<W> {
        let path = format!("{path}/{key}");
        match table.get(key) {
            None => self.wrong(&path, "is required"),
            Some(Toml::String(word)) => match word.parse() {
                Ok(word) => return Some(word),
                Err(error) => self.wrong(&path, &error.to_string()),
            },
            Some(_) => self.wrong(&path, "a string"),
        }
        None
    }

    fn known(&mut self, table: &Table, path: &str, keys: &[&str]) {
        for key in table.keys().filter(|key| !keys.contains(&key.as_str())) {
            self.wrong(&format!("{path}/{key}"), "is not known");
        }
    }

    fn wrong(&mut self, path: &str, message: &str) {
        self.problems.push(Problem { path: path.into(), message: message.into() });
    }
}
