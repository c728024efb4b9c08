//! Reasoning that a model writes into its text, `<think>` before and `</think>` behind it. Only what the answer begins with is
//! taken for it: further on the tag may be what the user asked about.

const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// Bytes of white space and of a tag's beginning: behind more of them no tag is looked for.
const BEGINNING_BYTES_MAX: usize = 1_024;

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    Reasoning(String),
}

#[derive(Debug, Default)]
pub(super) struct Thinking {
    place: Place,
    /// What may be the beginning of a tag.
    held: String,
}

#[derive(Debug, Default, Clone, Copy)]
enum Place {
    /// Nothing but white space and reasoning so far.
    #[default]
    Beginning,
    /// Until this tag.
    Within(&'static str),
    /// In what is meant to be read, to the end.
    Text,
}

impl Thinking {
    /// Takes a piece of text apart, wherever tags are cut.
    pub(super) fn take(&mut self, piece: &str) -> Vec<Part> {
        self.held.push_str(piece);
        let held = std::mem::take(&mut self.held);
        let (mut text, mut parts) = (held.as_str(), Vec::new());
        loop {
            match self.place {
                Place::Beginning => {
                    let said = text.trim_start();
                    if let Some((open, close)) = TAGS.iter().find(|(open, _)| said.starts_with(open)) {
                        (self.place, text) = (Place::Within(close), &said[open.len()..]);
                    } else if text.len() <= BEGINNING_BYTES_MAX && TAGS.iter().any(|(open, _)| open.starts_with(said)) {
                        break; // may still become one
                    } else {
                        self.place = Place::Text;
                    }
                }
                Place::Within(close) => {
                    let end = text.find(close);
                    let (reasoning, rest) = match end {
                        Some(at) => (&text[..at], text[at + close.len()..].trim_start()),
                        None => text.split_at(text.len() - tail(text, close)),
                    };
                    if !reasoning.is_empty() {
                        parts.push(Part::Reasoning(reasoning.to_owned()));
                    }
                    text = rest;
                    if end.is_none() {
                        break;
                    }
                    self.place = Place::Beginning;
                }
                Place::Text => {
                    if !text.is_empty() {
                        parts.push(Part::Text(text.to_owned()));
                    }
                    text = "";
                    break;
                }
            }
        }
        self.held = text.to_owned();
        parts
    }

    /// What was held back for a tag that did not come.
    pub(super) fn finish(&mut self) -> Option<Part> {
        let held = std::mem::take(&mut self.held);
        match self.place {
            _ if held.is_empty() => None,
            Place::Within(_) => Some(Part::Reasoning(held)),
            Place::Beginning | Place::Text => Some(Part::Text(held)),
        }
    }
}

/// Bytes at the end of a text that may be the beginning of a tag.
fn tail(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|length| text.ends_with(&tag[..*length])).unwrap_or(0)
}
