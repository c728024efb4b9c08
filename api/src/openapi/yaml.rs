//! Writing JSON as YAML that people can read: the committed form of the document.
//!
//! Not a library's work: ours are maps, lists and texts only, and `serde_json`'s numbers of any precision come out of other
//! serializers as maps.

use std::fmt::Write;

use serde_json::Value;

/// One member of the top level.
pub(super) fn section(name: &str, value: &Value) -> String {
    let mut out = String::new();
    member(&mut out, name, value, 0);
    out
}

fn member(out: &mut String, name: &str, value: &Value, indent: usize) {
    let _ = write!(out, "{:indent$}{}:", "", scalar(name)); // writing to a string cannot fail
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push('\n');
            members.iter().for_each(|(name, value)| member(out, name, value, indent + 2));
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            items.iter().for_each(|value| item(out, value, indent + 2));
        }
        Value::String(text) if is_block(text) => {
            out.push_str(" |-\n");
            block(out, text, indent + 2);
        }
        other => {
            let _ = writeln!(out, " {}", flat(other));
        }
    }
}

fn item(out: &mut String, value: &Value, indent: usize) {
    let begin = out.len();
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(name, value)| member(out, name, value, indent + 2));
        }
        Value::Array(items) if !items.is_empty() => items.iter().for_each(|value| item(out, value, indent + 2)),
        other => {
            let _ = writeln!(out, "{:width$}{}", "", flat(other), width = indent + 2);
        }
    }
    out.replace_range(begin + indent..begin + indent + 2, "- ");
}

fn block(out: &mut String, text: &str, indent: usize) {
    for line in text.lines() {
        let width = if line.is_empty() { 0 } else { indent };
        let _ = writeln!(out, "{:width$}{line}", "");
    }
}

/// Several lines that YAML's literal form gives back as they are.
fn is_block(text: &str) -> bool {
    let is_plain = |character: char| character == '\n' || !character.is_control();
    text.contains('\n') && !text.ends_with('\n') && !text.starts_with([' ', '\n']) && text.chars().all(is_plain)
}

fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(), // JSON is YAML
    }
}

/// Plain where nothing in it could mean something to a reader of YAML, else quoted as in JSON.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let begins = text.starts_with(|character: char| character.is_ascii_alphabetic() || matches!(character, '/' | '_'));
    let is_plain = |character: char| character.is_ascii_alphanumeric() || " _./{}()-;".contains(character);
    let is_word = WORDS.iter().any(|word| text.eq_ignore_ascii_case(word));
    if begins && !is_word && !text.ends_with(' ') && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::section;

    #[test]
    fn nothing_changes_its_meaning() {
        let value = json!({
            "list": [{"a": 1, "b": [true, []]}, "plain text", "no", "with: colon", [1, {"c": {}}]],
            "text": "first\n\n  second: \"quoted\"",
            "200": null,
        });
        let expected = r#"top:
  "200": null
  list:
    - a: 1
      b:
        - true
        - []
    - plain text
    - "no"
    - "with: colon"
    - - 1
      - c: {}
  text: |-
    first

      second: "quoted"
"#;
        assert_eq!(section("top", &value), expected);
    }
}
