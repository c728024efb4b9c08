//! Reasoning that a model writes into its text, `<think>` before and `</think>` behind it. Only what the answer begins with is
//! taken for it: further on the tag may be what the user asked about.

const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

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
        let mut parts = Vec::new();
        while let Some(part) = self.next_part() {
            parts.push(part);
        }
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

    fn next_part(&mut self) -> Option<Part> {
        match self.place {
            Place::Beginning => {
                let text = self.held.trim_start();
                if let Some((open, close)) = TAGS.iter().find(|(open, _)| text.starts_with(open)) {
                    self.held = text[open.len()..].to_owned();
                    self.place = Place::Within(close);
                    return self.next_part();
                }
                if TAGS.iter().any(|(open, _)| open.starts_with(text)) {
                    return None; // may still become one
                }
                self.place = Place::Text;
                self.next_part()
            }
            Place::Within(close) => {
                if let Some(at) = self.held.find(close) {
                    let rest = self.held.split_off(at);
                    let reasoning = std::mem::replace(&mut self.held, rest[close.len()..].trim_start().to_owned());
                    self.place = Place::Beginning;
                    return if reasoning.is_empty() { self.next_part() } else { Some(Part::Reasoning(reasoning)) };
                }
                let kept = tail(&self.held, close);
                let rest = self.held.split_off(self.held.len() - kept);
                let reasoning = std::mem::replace(&mut self.held, rest);
                (!reasoning.is_empty()).then_some(Part::Reasoning(reasoning))
            }
            Place::Text => {
                let text = std::mem::take(&mut self.held);
                (!text.is_empty()).then_some(Part::Text(text))
            }
        }
    }
}

/// Bytes at the end of a text that may be the beginning of a tag.
fn tail(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|length| text.ends_with(&tag[..*length])).unwrap_or(0)
}
