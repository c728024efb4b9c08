//! What an artifact may be called. Both texts end up in headers and in the file dialogs of people.

/// Characters of a name, as the table has it.
const NAME_CHARS_MAX: usize = 255;
const MEDIA_TYPE_BYTES_MAX: usize = 255;

/// A file name without path: no separator, no quote, no control character.
pub(super) fn is_name(name: &str) -> bool {
    let is_plain = |character: char| !character.is_control() && !matches!(character, '"' | '/' | '\\');
    (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && name.chars().all(is_plain) && name != "." && name != ".."
}

/// `type/subtype` with optional parameters, as RFC 9110 has it; a quoted value holds no quote, backslash or semicolon.
pub(super) fn is_media_type(text: &str) -> bool {
    let mut parts = text.split(';');
    let essence = parts.next().and_then(|essence| essence.trim_end_matches(' ').split_once('/'));
    text.len() <= MEDIA_TYPE_BYTES_MAX
        && essence.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
        && parts.all(|parameter| parameter.trim_matches(' ').split_once('=').is_some_and(is_parameter))
}

fn is_parameter((name, value): (&str, &str)) -> bool {
    let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    let is_quotable = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    is_token(name) && quoted.map_or_else(|| is_token(value), |value| value.bytes().all(is_quotable))
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
