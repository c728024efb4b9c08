//! A fresh, migrated database for each test, cloned from a template.

use std::sync::atomic::{AtomicU32, Ordering};

use baton_core::config;
use baton_core::db::{self, Role};
use baton_devdb::databases::{self, Template};
use baton_devdb::testing;
use sqlx::PgPool;
use tokio::sync::OnceCell;

use super::audit::watch_deletions;

static TEMPLATE: OnceCell<Template<'static>> = OnceCell::const_new();
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A database of one test, gone after it.
#[derive(Debug)]
pub(crate) struct TestDatabase {
    pub(crate) url: String,
    /// Of the test itself, beside the pools of what it tests.
    pub(crate) pool: PgPool,
    name: String,
}

impl TestDatabase {
    pub(crate) async fn create() -> Self {
        let template = TEMPLATE
            .get_or_init(|| async { Template::create(testing::shared(), "baton_template", migrate).await.unwrap() })
            .await;
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let url = template.clone(&name).await.unwrap();
        let pool = pool(&url, 4);
        Self { url, pool, name }
    }

    /// Settings that reach it.
    pub(crate) fn config(&self) -> config::Database {
        config::Database { url: Some(self.url.clone()), ..config::Database::default() }
    }

    pub(crate) async fn remove(self) {
        self.pool.close().await;
        databases::drop_database(testing::shared(), &self.name).await.unwrap();
    }
}

async fn migrate(url: String) -> Result<(), db::SchemaError> {
    let pool = pool(&url, 1);
    db::apply_migrations(&pool).await?;
    watch_deletions(&pool).await;
    pool.close().await;
    Ok(())
}

pub(crate) fn pool(url: &str, connections: u32) -> PgPool {
    let settings = config::Database { url: Some(url.to_owned()), pool: connections, ..config::Database::default() };
    db::connect(&settings, Role::Command).unwrap()
}
