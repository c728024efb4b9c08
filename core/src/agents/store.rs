//! The rows of agent versions. They never change, so what was read once is kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::PgPool;

use crate::agents::definition::AgentDefinition;
use crate::error::{Error, Resource};
use crate::runs::Limits;

/// Inserts a version where it is absent; the hash that is stored for it.
pub(super) async fn insert(
    pool: &PgPool,
    id: &str,
    version: &str,
    definition: &str,
    sha256: &str,
    limits: &Limits,
) -> Result<String, sqlx::Error> {
    sqlx::query!(
        r#"
        INSERT INTO agent_versions (agent_id, version, definition, sha256, max_steps, max_model_calls, max_tool_calls,
            max_input_tokens, max_output_tokens, max_cost_usd, deadline_seconds)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        ON CONFLICT (agent_id, version) DO NOTHING
        "#,
        id,
        version,
        definition,
        sha256,
        limits.max_steps,
        limits.max_model_calls,
        limits.max_tool_calls,
        limits.max_input_tokens,
        limits.max_output_tokens,
        limits.max_cost_usd,
        limits.deadline_seconds,
    )
    .execute(pool)
    .await?;
    sqlx::query_scalar!("SELECT a.sha256 FROM agent_versions a WHERE a.agent_id = $1 AND a.version = $2", id, version)
        .fetch_one(pool)
        .await
}

/// The versions that runs were frozen with, read from the database: a deploy strands no old session.
#[derive(Debug, Clone)]
pub struct Versions {
    pool: PgPool,
    known: Arc<Mutex<Known>>,
}

/// By identifier and version.
type Known = HashMap<(String, String), Arc<AgentDefinition>>;

impl Versions {
    pub fn new(pool: PgPool) -> Self {
        Self { pool, known: Arc::default() }
    }

    /// # Errors
    /// `NotFound`; `Internal` where the stored definition does not load in this build.
    pub async fn get(&self, id: &str, version: &str) -> Result<Arc<AgentDefinition>, Error> {
        let key = (id.to_owned(), version.to_owned());
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(known));
        }
        let definition = sqlx::query_scalar!(
            "SELECT a.definition FROM agent_versions a WHERE a.agent_id = $1 AND a.version = $2",
            id,
            version
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or(Error::NotFound(Resource::Agent))?;
        let definition: Arc<AgentDefinition> = Arc::new(serde_json::from_str(&definition).map_err(Error::internal)?);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&definition));
        Ok(definition)
    }
}
