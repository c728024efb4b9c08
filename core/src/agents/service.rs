//! What callers may know of agents: those that this process offers, to every tenant alike.

use std::sync::Arc;

use crate::agents::catalogue::Catalogue;
use crate::agents::view::AgentView;
use crate::error::{Error, Resource};
use crate::principal::Principal;
use crate::scope::Scope;

#[derive(Debug, Clone)]
pub struct AgentService {
    pub(crate) agents: Arc<Catalogue>,
}

impl AgentService {
    /// In order of their identifiers.
    ///
    /// # Errors
    /// `Authorization`.
    pub fn list(&self, principal: &Principal) -> Result<Vec<AgentView>, Error> {
        principal.require(Scope::AgentRead)?;
        Ok(self.agents.all().cloned().collect())
    }

    /// # Errors
    /// `NotFound`.
    pub fn get(&self, principal: &Principal, id: &str) -> Result<AgentView, Error> {
        principal.require(Scope::AgentRead)?;
        self.agents.get(id).cloned().ok_or(Error::NotFound(Resource::Agent))
    }
}
