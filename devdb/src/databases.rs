//! The SQL of a cluster's owner: databases made, cloned and dropped.

use std::error;
use std::future::Future;

use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, postgres::PgConnectOptions};

use crate::{Cluster, Error};

/// The database that `initdb` makes, which every administrative session uses.
const MAINTENANCE: &str = "postgres";

/// The first version that has `STRATEGY`; earlier ones always copy files.
const STRATEGY_SINCE_MAJOR: u32 = 15;

/// Makes the database `name` if it is not there. Returns its URL.
pub async fn create_if_missing(cluster: &Cluster, name: &str) -> Result<String, Error> {
    let failed = sql_error("create", name);
    let mut session = connect(&cluster.url(MAINTENANCE)).await.map_err(&failed)?;
    let exists: bool = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
        .bind(name)
        .fetch_one(&mut session)
        .await
        .map_err(&failed)?;
    if !exists {
        execute(&mut session, format!("CREATE DATABASE {}", quoted(name))).await.map_err(&failed)?;
    }
    session.close().await.map_err(&failed)?;
    Ok(cluster.url(name))
}

/// Drops the database `name`, sessions included. Nothing happens if there is none.
pub async fn drop_database(cluster: &Cluster, name: &str) -> Result<(), Error> {
    let failed = sql_error("drop", name);
    let mut session = connect(&cluster.url(MAINTENANCE)).await.map_err(&failed)?;
    execute(&mut session, format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", quoted(name))).await.map_err(&failed)?;
    session.close().await.map_err(&failed)
}

/// A migrated database that others are copied from, file by file, in tens of milliseconds.
#[derive(Debug)]
pub struct Template<'c> {
    cluster: &'c Cluster,
    name: String,
}

impl<'c> Template<'c> {
    /// Makes the database `name` anew and lets `migrate` fill it, given its URL. Afterwards nobody can connect to it, for
    /// a database with a session cannot be copied.
    pub async fn create<Migrate, Done, Failure>(cluster: &'c Cluster, name: &str, migrate: Migrate) -> Result<Template<'c>, Error>
    where
        Migrate: FnOnce(String) -> Done,
        Done: Future<Output = Result<(), Failure>>,
        Failure: Into<Box<dyn error::Error + Send + Sync>>,
    {
        drop_database(cluster, name).await?;
        let url = create_if_missing(cluster, name).await?;
        migrate(url).await.map_err(|source| Error::Migrate { database: name.to_owned(), source: source.into() })?;
        let failed = sql_error("seal", name);
        let mut session = connect(&cluster.url(MAINTENANCE)).await.map_err(&failed)?;
        execute(&mut session, format!("ALTER DATABASE {} ALLOW_CONNECTIONS false", quoted(name))).await.map_err(&failed)?;
        // A pool of the migration may still be saying goodbye.
        sqlx::query("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1")
            .bind(name)
            .execute(&mut session)
            .await
            .map_err(&failed)?;
        session.close().await.map_err(&failed)?;
        Ok(Template { cluster, name: name.to_owned() })
    }

    /// Makes the database `name` as a copy of this one. Returns its URL.
    pub async fn clone(&self, name: &str) -> Result<String, Error> {
        let failed = sql_error("clone", name);
        let strategy = if self.cluster.binaries().major() >= STRATEGY_SINCE_MAJOR { "STRATEGY = FILE_COPY" } else { "" };
        let mut session = connect(&self.cluster.url(MAINTENANCE)).await.map_err(&failed)?;
        let statement = format!("CREATE DATABASE {} TEMPLATE {} {strategy}", quoted(name), quoted(&self.name));
        execute(&mut session, statement).await.map_err(&failed)?;
        session.close().await.map_err(&failed)?;
        Ok(self.cluster.url(name))
    }
}

/// A session of its own for each statement: a pool would belong to the runtime of the test that opened it.
async fn connect(url: &str) -> Result<PgConnection, sqlx::Error> {
    let options: PgConnectOptions = url.parse()?;
    options.disable_statement_logging().connect().await
}

/// Runs a statement that takes no parameters, as `CREATE DATABASE` does not.
async fn execute(session: &mut PgConnection, statement: String) -> Result<(), sqlx::Error> {
    // Names are quoted; the rest is written here.
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(session).await.map(drop)
}

/// `name` as an SQL identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn sql_error(action: &'static str, database: &str) -> impl Fn(sqlx::Error) -> Error {
    let database = database.to_owned();
    move |source| Error::Sql { action, database: database.clone(), source }
}
