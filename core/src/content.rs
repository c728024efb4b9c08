//! What people and models say to each other: always a list of blocks.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::error::Problem;

/// Blocks in one message.
pub const BLOCKS_MAX: usize = 32;
/// Serialized content of one message: fits an event's body with room for the rest of it.
pub const CONTENT_BYTES_MAX: usize = 200_000;

/// One block. A new kind is a new variant.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ContentBlock {
    Text {
        #[schema(min_length = 1, pattern = r"^[^\x00]*$")]
        text: String,
    },
}

impl Serialize for ContentBlock {
    /// With the keys in code point order, as in every body of an event; derived, the tag would come first.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self::Text { text } = self;
        let mut block = serializer.serialize_struct("ContentBlock", 2)?;
        block.serialize_field("text", text)?;
        block.serialize_field("type", "text")?;
        block.end()
    }
}

/// One block of text.
pub fn text_content(text: impl Into<String>) -> Vec<ContentBlock> {
    vec![ContentBlock::Text { text: text.into() }]
}

/// The text of all blocks, a line each.
pub fn text_of(content: &[ContentBlock]) -> String {
    content.iter().map(|ContentBlock::Text { text }| text.as_str()).collect::<Vec<_>>().join("\n")
}

/// Everything that is wrong with the content of a message.
pub fn problems(content: &[ContentBlock]) -> Vec<Problem> {
    let problem = |path: String, message: String| Problem { path, message };
    let mut problems = Vec::new();
    if !(1..=BLOCKS_MAX).contains(&content.len()) {
        problems.push(problem("/content".into(), format!("1 to {BLOCKS_MAX} blocks")));
    }
    for (index, ContentBlock::Text { text }) in content.iter().enumerate() {
        if text.is_empty() {
            problems.push(problem(format!("/content/{index}/text"), "not empty".into()));
        } else if text.contains('\0') {
            problems.push(problem(format!("/content/{index}/text"), "without NUL".into()));
        }
    }
    if serde_json::to_string(content).is_ok_and(|text| text.len() > CONTENT_BYTES_MAX) {
        problems.push(problem("/content".into(), format!("at most {CONTENT_BYTES_MAX} bytes when serialized")));
    }
    problems
}

/// Cuts a text at a character boundary so that its JSON form takes at most `bytes_max`. The second value says whether it was cut.
pub fn fit(text: &str, bytes_max: usize) -> (&str, bool) {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += json_bytes(character);
        if used > bytes_max {
            return (&text[..at], true);
        }
    }
    (text, false)
}

/// The end of a text, as long as its JSON form takes at most `bytes_max`.
pub fn fit_end(text: &str, bytes_max: usize) -> &str {
    let mut used = 0;
    for (at, character) in text.char_indices().rev() {
        used += json_bytes(character);
        if used > bytes_max {
            return &text[at + character.len_utf8()..];
        }
    }
    text
}

/// What a character takes within a string of JSON.
const fn json_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests;
