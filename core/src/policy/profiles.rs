//! The profiles that this process has loaded.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Problem;
use crate::policy::agent::AgentPolicy;
use crate::policy::decide::Policy;
use crate::policy::profile::Profile;
use crate::toml_folder::{self, FolderError};

/// The profile that every installation has until it replaces it.
const DEFAULT: &str = include_str!("../../../policies/default.toml");
const DEFAULT_FILE: &str = "the built-in profile";

/// Why the profiles do not load. Every problem of every file at once.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("policy profiles do not load:\n{}", .0.join("\n"))]
    Problems(Vec<String>),
}

/// The profiles, by name. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Profiles {
    by_name: Arc<BTreeMap<String, Arc<Profile>>>,
    /// The policies that were asked for, which every run asks for again: the version of one is a hash of all that decides.
    policies: Arc<Mutex<Policies>>,
}

/// By the profile's name and what the agent adds.
type Policies = HashMap<(String, AgentPolicy), Arc<Policy>>;

impl Profiles {
    /// The built-in profile and those of a folder, one of which may take the place of the built-in one.
    ///
    /// # Errors
    /// [`ProfileError`]; nothing loads unless every file is right.
    pub fn load(folder: Option<&Path>) -> Result<Self, ProfileError> {
        let files = folder.map(toml_folder::read).transpose()?.unwrap_or_default();
        let mut problems = Vec::new();
        let mut by_name = parse(vec![(DEFAULT_FILE.into(), DEFAULT.into())], &mut problems);
        by_name.append(&mut parse(files, &mut problems));
        if problems.is_empty() {
            Ok(Self { by_name: Arc::new(by_name), policies: Arc::default() })
        } else {
            Err(ProfileError::Problems(problems))
        }
    }

    /// The policy of an agent. None where its profile is not loaded; what cannot be decided is not allowed.
    pub fn policy_of(&self, profile_name: &str, agent: &AgentPolicy) -> Option<Arc<Policy>> {
        let asked = (profile_name.to_owned(), agent.clone());
        let mut policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(policy) = policies.get(&asked) {
            return Some(Arc::clone(policy));
        }
        let profile = self.by_name.get(profile_name)?;
        // An agent without a canonical text was never stored, so that no run can ask.
        let policy = Arc::new(Policy::new(Arc::clone(profile), agent.clone()).ok()?);
        policies.insert(asked, Arc::clone(&policy));
        Some(policy)
    }

    pub fn holds(&self, profile_name: &str) -> bool {
        self.by_name.contains_key(profile_name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}

fn parse(files: Vec<(String, String)>, problems: &mut Vec<String>) -> BTreeMap<String, Arc<Profile>> {
    let mut by_name = BTreeMap::new();
    for (file, text) in files {
        match Profile::parse(&text) {
            Err(wrong) => {
                let named = |Problem { path, message }| format!("{file}: {path}: {message}");
                problems.extend(wrong.into_iter().map(named));
            }
            Ok(profile) => {
                if by_name.contains_key(&profile.name) {
                    problems.push(format!("{file}: /name: `{}` is the name of another file's profile", profile.name));
                }
                by_name.insert(profile.name.clone(), Arc::new(profile));
            }
        }
    }
    by_name
}
