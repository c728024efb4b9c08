//! What a model is told of an agent's tools.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::agents::AgentDefinition;
use baton_core::tools::{Catalogue, Entry, ToolSpec};

/// The tools of an agent that this process has, and lets be called. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) tools: Arc<[ToolSpec]>,
    /// Of what a model reads of them.
    pub(crate) bytes: usize,
}

/// The offers of agent versions, which never change: made once.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    /// By identifier and version of the agent.
    known: Mutex<HashMap<(String, String), Offer>>,
}

impl Offers {
    pub(crate) fn of(&self, version: &str, agent: &AgentDefinition, catalogue: &Catalogue) -> Offer {
        let key = (agent.id.clone(), version.to_owned());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(key).or_insert_with(|| Offer::new(agent, catalogue)).clone()
    }
}

impl Offer {
    fn new(agent: &AgentDefinition, catalogue: &Catalogue) -> Self {
        let entries = agent.tools.iter().filter_map(|name| catalogue.entry(name)).filter(|entry| !entry.is_disabled);
        let tools: Arc<[ToolSpec]> = entries.map(Entry::spec).cloned().collect();
        let bytes = |spec: &ToolSpec| spec.name.len() + spec.description.len() + spec.input_schema.to_string().len();
        Self { bytes: tools.iter().map(bytes).sum(), tools }
    }
}
