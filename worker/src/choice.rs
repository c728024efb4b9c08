//! Which model a run asks: that of its agent's policy, or the one that it has begun with.

use std::sync::Arc;

use baton_core::Error;
use baton_core::agents::AgentDefinition;
use baton_core::execution::Pinned;
use baton_core::models::{Policies, Policy};
use baton_core::runs::FailureClass;

use crate::models::{Answering, ModelProvider, providers_of};
use crate::run_loop::{Flow, Outcome};

/// The policies of this process, each with whoever answers under it.
#[derive(Debug)]
pub(crate) struct Choices(Vec<Choice>);

#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) policy: Arc<Policy>,
    provider: Answering,
}

impl Choices {
    pub(crate) fn new(policies: &Policies) -> Result<Self, Error> {
        let choices = providers_of(policies)?.into_iter();
        Ok(Self(choices.map(|(policy, provider)| Choice { policy: Arc::new(policy), provider }).collect()))
    }

    /// A run that has asked one model asks no other: what that one gave to be handed back, another does not understand. Another
    /// policy with the same provider and model will do.
    pub(crate) fn of(&self, agent: &AgentDefinition, pinned: Option<&Pinned>) -> Flow<Choice> {
        let is_named = |choice: &&Choice| choice.policy.name == agent.model;
        let is_pinned = |choice: &&Choice| {
            pinned.is_none_or(|pinned| choice.policy.provider == pinned.provider && choice.policy.model == pinned.model)
        };
        let choice = match (self.0.iter().find(is_named), pinned) {
            (Some(named), _) if is_pinned(&named) => named,
            (_, Some(_)) => self.0.iter().find(is_pinned).ok_or_else(|| Outcome::failed_for(FailureClass::ProviderChanged))?,
            (_, None) => return Err(Outcome::failed_for(FailureClass::NoModelPolicy)),
        };
        Ok(choice.clone())
    }
}

impl Choice {
    pub(crate) fn provider(&self) -> Flow<Arc<dyn ModelProvider>> {
        match &self.provider {
            None => Err(Outcome::failed_for(FailureClass::NoProvider)),
            Some(provider) if provider.is_barred() => Err(Outcome::failed_for(FailureClass::CredentialRefused)),
            Some(provider) => Ok(Arc::clone(provider)),
        }
    }
}
