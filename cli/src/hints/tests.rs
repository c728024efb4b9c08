use super::*;

#[test]
fn what_a_shell_would_take_apart_is_quoted() {
    for (text, word) in [
        ("target/release/agentctl", "target/release/agentctl"),
        ("/tmp/my data", "'/tmp/my data'"),
        ("it's", r"'it'\''s'"),
        ("$HOME", "'$HOME'"),
        ("", "''"),
    ] {
        assert_eq!(quoted(text), word);
    }
}
