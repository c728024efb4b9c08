//! Runs a command with `DATABASE_URL` set to a throw-away database that has all migrations.
//!
//! `cargo run -p baton-devdb --example with -- cargo sqlx prepare --workspace`

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use baton_devdb::databases;
use baton_devdb::testing::TempCluster;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations");

/// What `EX_USAGE` is to a shell; 1 could be the command's own code.
const USAGE: u8 = 2;

/// A command that a signal ended has no code. Shells say 128 and the signal; here it only must not be 0.
const ENDED_BY_SIGNAL: u8 = 128;

// On the main thread, because Postgres ends with the thread that started it.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("usage: with <command> [argument…]");
        return Ok(ExitCode::from(USAGE));
    };
    let cluster = TempCluster::start()?;
    let url = databases::create_if_missing(&cluster, "baton").await?;
    migrate(&url).await?;
    let status = Command::new(&program)
        .args(arguments)
        .env("DATABASE_URL", url)
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(ENDED_BY_SIGNAL)))
}

/// Plain SQL in the order of the file names, without a record of what was applied: the database is new.
async fn migrate(url: &str) -> Result<()> {
    let mut session = PgConnection::connect(url).await?;
    for file in sql_files(Path::new(MIGRATIONS))? {
        let sql = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut session)
            .await
            .with_context(|| format!("cannot apply {}", file.display()))?;
    }
    session.close().await?;
    Ok(())
}

fn sql_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
