//! `agentctl migrate`: brings the schema up to this version.

use baton_core::db::{self, Role};

use crate::args::{Global, Migrate};
use crate::connection;
use crate::exit::Failure;

pub(crate) async fn run(global: &Global, args: Migrate) -> Result<(), Failure> {
    let config = connection::config(global)?;
    let pool = db::connect(&config.database, Role::Command)?;
    let failed = |error| Failure::unavailable("migrating", &error);
    let pending = db::pending_migrations(&pool).await.map_err(failed)?;
    if !args.dry_run {
        db::apply_migrations(&pool).await.map_err(failed)?;
    }
    let verb = if args.dry_run { "would apply" } else { "applied" };
    for (version, title) in &pending {
        println!("{verb} {version:04} {title}");
    }
    if pending.is_empty() {
        println!("the schema is up to date");
    }
    Ok(())
}
