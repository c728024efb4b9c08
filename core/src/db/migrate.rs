//! The schema's version: migrations are compiled in, and a server refuses a schema it does not know.

use sqlx::PgPool;
use sqlx::migrate::{MigrateError, Migrator};

static MIGRATOR: Migrator = sqlx::migrate!("../migrations");

/// Why a server does not run on this database.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("the schema is at version {found}, this program needs {known}: run `agentctl migrate`")]
    Older { found: i64, known: i64 },
    #[error("the schema is at version {found}, newer than {known}, which this program knows: run a newer agentctl")]
    Newer { found: i64, known: i64 },
    #[error("migration {version} was applied with other content than this program has: restore the file, or the database")]
    Changed { version: i64 },
    #[error("migrations could not be applied")]
    Failed(#[source] MigrateError),
    #[error("the database does not answer")]
    Database(#[source] sqlx::Error),
}

/// The newest version that this program knows.
fn known() -> i64 {
    MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// The newest version that was applied; 0 for an empty database.
async fn found(pool: &PgPool) -> Result<i64, SchemaError> {
    let exists: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(pool)
        .await
        .map_err(SchemaError::Database)?;
    if !exists {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success")
        .fetch_one(pool)
        .await
        .map_err(SchemaError::Database)
}

/// # Errors
/// [`SchemaError::Older`] or [`SchemaError::Newer`] with both versions; nothing is changed.
pub async fn check_schema(pool: &PgPool) -> Result<(), SchemaError> {
    let (found, known) = (found(pool).await?, known());
    match found.cmp(&known) {
        std::cmp::Ordering::Less => Err(SchemaError::Older { found, known }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(SchemaError::Newer { found, known }),
    }
}

/// What `apply_migrations` would do: version and title of each, in order.
///
/// # Errors
/// [`SchemaError::Newer`], or the database's.
pub async fn pending_migrations(pool: &PgPool) -> Result<Vec<(i64, String)>, SchemaError> {
    let (found, known) = (found(pool).await?, known());
    if found > known {
        return Err(SchemaError::Newer { found, known });
    }
    Ok(MIGRATOR
        .iter()
        .filter(|migration| migration.version > found)
        .map(|migration| (migration.version, migration.description.to_string()))
        .collect())
}

/// Applies what is missing, each in its own transaction, under a lock that makes concurrent callers wait for each other.
///
/// # Errors
/// [`SchemaError`]; what was applied before the failure stays.
pub async fn apply_migrations(pool: &PgPool) -> Result<(), SchemaError> {
    let (found, known) = (found(pool).await?, known());
    if found > known {
        return Err(SchemaError::Newer { found, known });
    }
    MIGRATOR.run(pool).await.map_err(|error| match error {
        MigrateError::VersionMismatch(version) => SchemaError::Changed { version },
        other => SchemaError::Failed(other),
    })
}
