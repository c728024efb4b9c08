//! Templates and their copies, on the cluster that a test process shares.

use std::collections::HashSet;

use baton_devdb::databases::{self, Template};
use baton_devdb::{Error, testing};
use sqlx::Connection;

use crate::support::{connect, count, execute};

async fn migrate(url: String) -> Result<(), sqlx::Error> {
    let mut session = connect(&url).await;
    execute(&mut session, "CREATE TABLE runs (n int); INSERT INTO runs VALUES (1)").await;
    session.close().await
}

#[tokio::test]
async fn copies_of_a_template_are_independent() {
    let template = Template::create(testing::shared(), "independent", migrate).await.expect("a template");

    let mut urls = HashSet::new();
    for name in ["independent_1", "independent_2"] {
        let url = template.clone(name).await.expect("a copy");
        let mut session = connect(&url).await;
        assert_eq!(count(&mut session, "runs").await, 1);
        execute(&mut session, "INSERT INTO runs VALUES (2)").await;
        urls.insert(url);
    }

    assert_eq!(urls.len(), 2);
}

#[tokio::test]
async fn a_failed_migration_is_told_and_does_not_stay() {
    let failing = |_| async { Err("no such column") };
    let error = Template::create(testing::shared(), "failing", failing).await.expect_err("it fails");
    assert!(matches!(&error, Error::Migrate { database, .. } if database == "failing"), "{error}");

    let template = Template::create(testing::shared(), "failing", migrate).await.expect("the second attempt starts anew");
    template.clone("after_failing").await.expect("a copy");
}

#[tokio::test]
async fn a_database_is_made_once_and_dropped_with_its_sessions() {
    let cluster = testing::shared();
    let name = r#"an "odd" name, ü"#;
    let url = databases::create_if_missing(cluster, name).await.expect("a database");
    let mut session = connect(&url).await;
    execute(&mut session, "CREATE TABLE runs (n int)").await;

    assert_eq!(databases::create_if_missing(cluster, name).await.expect("it is there"), url);
    assert_eq!(count(&mut session, "runs").await, 0);

    databases::drop_database(cluster, name).await.expect("it is dropped");
    assert!(session.ping().await.is_err(), "the session ends with its database");
    databases::drop_database(cluster, name).await.expect("there is nothing to drop");
}

/// Where the installation has it: then a bench may read it, after `CREATE EXTENSION`.
#[tokio::test]
async fn preloads_the_statement_statistics_if_there_are_any() {
    let mut session = connect(&testing::shared().url("postgres")).await;
    let sql = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_stat_statements'), \
               current_setting('shared_preload_libraries')";
    let (available, preloaded): (bool, String) = sqlx::query_as(sql).fetch_one(&mut session).await.expect("a row");

    assert_eq!(preloaded == "pg_stat_statements", available);
}
