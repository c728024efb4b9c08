//! The tools that this process offers, checked and compiled at start.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

use crate::config::Config;
use crate::tools::ask_user::AskUser;
use crate::tools::calculate::Calculate;
use crate::tools::current_time::CurrentTime;
use crate::tools::external_write::ExternalWrite;
use crate::tools::http_fetch::HttpFetch;
use crate::tools::registration::{self, Compiled};
use crate::tools::spec::ToolSpec;
use crate::tools::tool::Tool;
use crate::tools::write_artifact::WriteArtifact;

/// Why the tools do not load. Every problem of every tool at once.
#[derive(Debug, thiserror::Error)]
#[error("tools do not load:\n{}", .0.join("\n"))]
pub struct CatalogueError(pub Vec<String>);

/// Tools by name. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Catalogue {
    entries: Arc<BTreeMap<&'static str, Entry>>,
}

/// A tool, with what is known of it before any call.
pub struct Entry {
    pub tool: Arc<dyn Tool>,
    /// Of the input schema's canonical text: an approval is bound to it.
    pub schema_sha256: String,
    /// By the operator: it is known, and nobody may call it.
    pub is_disabled: bool,
    input: Validator,
    output: Option<Validator>,
}

impl Catalogue {
    /// # Errors
    /// [`CatalogueError`], where any tool is not what a tool must be, or a disabled one does not exist.
    pub fn new(tools: Vec<Arc<dyn Tool>>, disabled: &[String]) -> Result<Self, CatalogueError> {
        let mut problems = Vec::new();
        let mut entries = BTreeMap::new();
        let mut names: Vec<&'static str> = Vec::new();
        for tool in tools {
            let name = tool.spec().name;
            if names.contains(&name) {
                problems.push(format!("{name}: name: used by another tool"));
            }
            names.push(name);
            match registration::compile(tool.spec()) {
                Err(wrong) => problems.extend(wrong.into_iter().map(|problem| format!("{name}: {problem}"))),
                Ok(Compiled { schema_sha256, input, output }) => {
                    let is_disabled = disabled.iter().any(|disabled| disabled == name);
                    entries.insert(name, Entry { tool, schema_sha256, is_disabled, input, output });
                }
            }
        }
        let unknown = disabled.iter().filter(|disabled| !names.contains(&disabled.as_str()));
        problems.extend(unknown.map(|name| format!("`tools.disabled`: there is no tool `{name}`")));
        if problems.is_empty() { Ok(Self { entries: Arc::new(entries) }) } else { Err(CatalogueError(problems)) }
    }

    /// The tools that come with the program.
    ///
    /// # Errors
    /// As [`Catalogue::new`]: where `tools.disabled` names one that does not exist; and where `tools.fetch_hosts` holds what is no host.
    pub fn builtin(config: &Config) -> Result<Self, CatalogueError> {
        let fetch = HttpFetch::new(&config.tools.fetch_hosts).map_err(|problem| CatalogueError(vec![problem]))?;
        let tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(Calculate::new()),
            Arc::new(CurrentTime::new()),
            Arc::new(WriteArtifact::new()),
            Arc::new(AskUser::new()),
            Arc::new(fetch),
            Arc::new(ExternalWrite::new(config.demo.effects_file.clone())),
        ];
        Self::new(tools, &config.tools.disabled)
    }

    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// In order; those that are disabled too.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.keys().copied()
    }
}

impl Entry {
    pub fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    pub fn accepts(&self, arguments: &Value) -> bool {
        self.input.is_valid(arguments)
    }

    /// Whether a result is what the tool promises; one that promises nothing keeps its word.
    pub fn result_fits(&self, value: &Value) -> bool {
        self.output.as_ref().is_none_or(|output| output.is_valid(value))
    }
}

impl fmt::Debug for Entry {
    /// Without the compiled schemas, which nobody can read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("tool", &self.tool)
            .field("schema_sha256", &self.schema_sha256)
            .field("is_disabled", &self.is_disabled)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
