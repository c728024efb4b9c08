//! The reference of the settings names every key, with its default, and nothing else.

use std::collections::BTreeMap;

use baton_core::config::Config;
use serde_json::{Value, json};

const REFERENCE: &str = include_str!("../../docs/reference/configuration.md");

/// Tables whose keys are names that an installation gives, or which are a list of such tables: what stands below a name is a key of its own.
const NAMED: [&str; 3] = ["providers", "models", "auth.keys"];

/// A name for each role, and nothing below it.
const ROLES: &str = "auth.roles";

/// Every key with its default; None where it has none to compare.
fn keys_of_the_defaults() -> BTreeMap<String, Option<String>> {
    let mut config = Config::default();
    let prices = json!({"input": "1", "cached_input": "1", "cache_write_input": "1", "output": "1"});
    let model = json!({"provider": "openai", "model": "m", "prices": prices});
    config.models.insert("mine".into(), serde_json::from_value(model).unwrap());
    config.auth.keys.push(serde_json::from_value(json!({"algorithm": "HS256"})).unwrap());
    let mut keys = BTreeMap::new();
    collect("", &serde_json::to_value(&config).unwrap(), true, &mut keys);
    keys
}

fn collect(key: &str, value: &Value, has_default: bool, keys: &mut BTreeMap<String, Option<String>>) {
    match value {
        Value::Object(entries) if NAMED.contains(&key) => {
            entries.values().for_each(|entry| collect(&format!("{key}.<name>"), entry, false, keys));
        }
        Value::Array(entries) if NAMED.contains(&key) => {
            entries.iter().for_each(|entry| collect(&format!("{key}[]"), entry, false, keys));
        }
        Value::Object(entries) if key != ROLES => {
            for (name, value) in entries {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                collect(&key, value, has_default, keys);
            }
        }
        _ => {
            keys.insert(key.to_owned(), (has_default && key != ROLES).then(|| shown(value)));
        }
    }
}

/// A default as the page writes it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

/// The first two columns of every row whose first is a key.
fn keys_of_the_page() -> BTreeMap<String, String> {
    let rows = REFERENCE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(key, rest)| (key.to_owned(), rest.split(" | ").next().unwrap().to_owned())).collect()
}

#[test]
fn the_reference_of_settings_has_every_key_with_its_default_and_nothing_else() {
    let (expected, page) = (keys_of_the_defaults(), keys_of_the_page());
    let missing: Vec<&String> = expected.keys().filter(|key| !page.contains_key(*key)).collect();
    assert!(missing.is_empty(), "docs/reference/configuration.md lacks {missing:?}");
    let unknown: Vec<&String> = page.keys().filter(|key| !expected.contains_key(*key)).collect();
    assert!(unknown.is_empty(), "docs/reference/configuration.md has keys that are none: {unknown:?}");
    for (key, default) in &expected {
        if let Some(default) = default {
            assert_eq!(&page[key], default, "the default of `{key}` in docs/reference/configuration.md");
        }
    }
}
