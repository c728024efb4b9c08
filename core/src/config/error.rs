//! Why there is no configuration, without what it holds: a line of the file may be a secret.

use std::path::PathBuf;

use figment::error::{Actual, Kind};

use crate::models::PoliciesError;

/// Why there is no configuration to start with.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{0}")]
    Unreadable(String),
    #[error("`{key}` {problem}")]
    Invalid { key: &'static str, problem: &'static str },
    /// One of several, by its name.
    #[error("`auth.keys`: {which} {problem}")]
    InvalidKey { which: String, problem: &'static str },
    #[error(transparent)]
    Models(#[from] PoliciesError),
    #[error("the configuration file `{0}` cannot be read")]
    NoFile(PathBuf),
}

impl From<figment::Error> for ConfigError {
    fn from(error: figment::Error) -> Self {
        let problems = error.into_iter().map(|mut problem| {
            problem.kind = without_value(problem.kind);
            problem.to_string()
        });
        Self::Unreadable(problems.collect::<Vec<_>>().join("\n"))
    }
}

/// What was found, by its type alone.
fn without_value(kind: Kind) -> Kind {
    let bare = |actual| {
        Actual::Other(match actual {
            Actual::Str(_) => "a string".into(),
            Actual::Bool(_) => "a boolean".into(),
            Actual::Unsigned(_) | Actual::Signed(_) | Actual::Float(_) => "a number".into(),
            Actual::Seq => "a list".into(),
            Actual::Map => "a table".into(),
            _ => "another type".into(),
        })
    };
    match kind {
        Kind::InvalidType(actual, expected) => Kind::InvalidType(bare(actual), expected),
        Kind::InvalidValue(actual, expected) => Kind::InvalidValue(bare(actual), expected),
        Kind::Unsupported(actual) => Kind::Unsupported(bare(actual)),
        other => other,
    }
}

/// Whether a file is TOML; if not, where: the parser's own message would show the line.
pub(super) fn well_formed(text: &str) -> Result<(), ConfigError> {
    let Err(error) = toml::from_str::<toml::Table>(text) else { return Ok(()) };
    let line = error.span().map_or(1, |span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
    Err(ConfigError::Unreadable(format!("the configuration file is not TOML, in line {line}")))
}
