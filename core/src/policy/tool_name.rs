//! How a rule may name a tool.

pub(super) const TOOL_NAME: &str = "the name of a tool: 1 to 128 of a-z, 0-9, `_`, `-` and `.`";

/// Looser than what a catalogue accepts: it is there to catch a rule that can never apply.
pub(super) fn is_tool_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.".contains(&byte))
}
