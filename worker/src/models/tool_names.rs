//! Names of tools as providers allow them: 1 to 64 letters, digits, `_` and `-`.

use std::collections::BTreeMap;

use baton_core::tools::ToolSpec;
use sha2::{Digest, Sha256};

const NAME_CHARS_MAX: usize = 64;

/// Hexadecimal digits that tell names apart which would read the same.
const HASH_CHARS: usize = 8;

/// Both ways for the tools of one request, the same for the same tools.
#[derive(Debug, Default)]
pub(super) struct ToolNames {
    /// Theirs by ours.
    theirs: BTreeMap<String, String>,
}

impl ToolNames {
    pub(super) fn new(tools: &[ToolSpec]) -> Self {
        let is_taken = |theirs: &str, ours: &str| tools.iter().any(|tool| tool.name != ours && plain(tool.name) == theirs);
        let theirs = tools.iter().map(|tool| {
            let plain = plain(tool.name);
            let is_its_own = plain.len() <= NAME_CHARS_MAX && (plain == tool.name || !is_taken(&plain, tool.name));
            (tool.name.to_owned(), if is_its_own { plain } else { distinct(&plain, tool.name) })
        });
        Self { theirs: theirs.collect() }
    }

    /// `math.calculate` is `math_calculate`. A name of an earlier turn may be of a tool that is not there any more.
    pub(super) fn theirs(&self, ours: &str) -> String {
        self.theirs.get(ours).cloned().unwrap_or_else(|| {
            let plain = plain(ours);
            if plain.is_empty() || plain.len() > NAME_CHARS_MAX { distinct(&plain, ours) } else { plain }
        })
    }

    /// What a model calls a tool; what it made up stays as it is, and is no tool.
    pub(super) fn ours(&self, theirs: &str) -> String {
        let known = self.theirs.iter().find(|(_, known)| *known == theirs);
        known.map_or(theirs, |(ours, _)| ours).to_owned()
    }
}

fn plain(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() || "_-".contains(letter) { letter } else { '_' }).collect()
}

fn distinct(plain: &str, name: &str) -> String {
    let hash: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
    let kept = plain.len().min(NAME_CHARS_MAX - HASH_CHARS - 1);
    format!("{}_{}", &plain[..kept], &hash[..HASH_CHARS])
}

#[cfg(test)]
mod tests;
