//! The agents that this process offers: their files, frozen at start.

use std::collections::BTreeMap;
use std::path::Path;

use sqlx::PgPool;

use crate::agents::definition::AgentDefinition;
use crate::agents::store;
use crate::agents::view::AgentView;
use crate::canonical;
use crate::config::{self, ChangedFile};
use crate::error::{Error, Problem};
use crate::models::Policies;
use crate::policy::Profiles;
use crate::toml_folder::{self, FolderError};

/// The agent that every installation has until it has its own.
const DEMO: &str = include_str!("../../../agents/demo.toml");

/// The agent that asks the model policy `assistant`, for installations that have one and no agent of that name.
const ASSISTANT: &str = include_str!("assistant.toml");
const ASSISTANT_POLICY: &str = "assistant";

/// Why the agents do not load. Every problem of every file at once.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("agents do not load:\n{}", .0.join("\n"))]
    Problems(Vec<String>),
    #[error("agent `{id}` version `{version}` is stored with other content: versions are frozen, give the file a new version")]
    Changed { id: String, version: String },
    #[error(transparent)]
    Database(#[from] Error),
}

/// Each agent in its current version, by identifier.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    current: BTreeMap<String, AgentView>,
}

impl Catalogue {
    /// Reads the files, checks them, and stores each version that is not stored yet.
    ///
    /// # Errors
    /// [`LoadError`]; nothing is stored unless every file is right.
    pub async fn load(
        pool: &PgPool,
        config: &config::Agents,
        profiles: &Profiles,
        policies: &Policies,
    ) -> Result<Self, LoadError> {
        let mut files = read(config.folder.as_deref())?;
        if policies.get(ASSISTANT_POLICY).is_some() && !files.iter().any(|(_, text)| is_assistant(text)) {
            files.push(("the built-in assistant".into(), ASSISTANT.into()));
        }
        let definitions = check(files, profiles, policies)?;
        let mut current = BTreeMap::new();
        for definition in definitions {
            let version = freeze(pool, &definition, config.changed_file).await?;
            current.insert(definition.id.clone(), AgentView::new(&definition, version));
        }
        Ok(Self { current })
    }

    pub(crate) fn current(&self, agent_id: &str) -> Option<&str> {
        self.get(agent_id).map(|agent| agent.version.as_str())
    }

    /// The model policies that its agents name.
    pub fn model_policies(&self) -> impl Iterator<Item = &str> {
        self.all().map(|agent| agent.model.as_str())
    }

    pub(super) fn get(&self, agent_id: &str) -> Option<&AgentView> {
        self.current.get(agent_id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &AgentView> {
        self.current.values()
    }
}

/// The texts of the files, each with a name for messages.
fn read(folder: Option<&Path>) -> Result<Vec<(String, String)>, FolderError> {
    match folder {
        Some(folder) => toml_folder::read(folder),
        None => Ok(vec![("the built-in demo agent".into(), DEMO.into())]),
    }
}

fn is_assistant(text: &str) -> bool {
    AgentDefinition::parse(text).is_ok_and(|definition| definition.id == ASSISTANT_POLICY)
}

fn check(files: Vec<(String, String)>, profiles: &Profiles, policies: &Policies) -> Result<Vec<AgentDefinition>, LoadError> {
    let mut problems = Vec::new();
    let mut definitions: Vec<AgentDefinition> = Vec::new();
    for (name, text) in files {
        match AgentDefinition::parse(&text) {
            Err(error) => problems.push(format!("{name}: {error}")),
            Ok(definition) => {
                let wrong = |Problem { path, message }| format!("{name}: {path}: {message}");
                problems.extend(definition.problems(profiles, policies).into_iter().map(wrong));
                if definitions.iter().any(|other| other.id == definition.id) {
                    problems.push(format!("{name}: /id: `{}` is the id of another file", definition.id));
                }
                definitions.push(definition);
            }
        }
    }
    if problems.is_empty() { Ok(definitions) } else { Err(LoadError::Problems(problems)) }
}

/// Stores a version where it is absent; the version that the file has in the end.
async fn freeze(pool: &PgPool, definition: &AgentDefinition, changed: ChangedFile) -> Result<String, LoadError> {
    let text = definition.canonical_text().map_err(|error| LoadError::Problems(vec![format!("{}: {error}", definition.id)]))?;
    let sha256 = canonical::sha256_hex(&text);
    let mut version = definition.version.clone();
    loop {
        let stored =
            store::insert(pool, &definition.id, &version, &text, &sha256, &definition.limits).await.map_err(Error::from)?;
        if stored == sha256 {
            return Ok(version);
        }
        if changed == ChangedFile::Refused || version != definition.version {
            return Err(LoadError::Changed { id: definition.id.clone(), version });
        }
        version = format!("{}+{}", definition.version, &sha256[..8]);
    }
}

#[cfg(test)]
mod tests;
