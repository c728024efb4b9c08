//! A writer in SQL, where a run of the product's own could not be made to write so much: one statement that does for one run what
//! the journal's does, and then the same wake-up on a connection of its own.

use anyhow::{Context, Result};
use sqlx::{ConnectOptions, Connection, PgConnection, postgres::PgConnectOptions};
use tokio::time::Instant;
use uuid::Uuid;

/// Events of a run before the writer begins.
pub(crate) const EVENTS_BEFORE: u64 = 4;

/// A result of some hundred bytes, as small calls have.
const TYPE: &str = "tool.call.completed";
const BODY: &str =
    r#"{"call_id":"call_1","invocation_id":"01981c2e-7a00-7000-8000-000000000001","result":{"value":"108"},"truncated":false}"#;

#[derive(Debug)]
pub(crate) struct Writer {
    rows: PgConnection,
    hints: PgConnection,
    owner: Uuid,
}

/// A run that nobody but the writer executes.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) session_id: Uuid,
    pub(crate) run_id: Uuid,
    appends: i32,
}

impl Written {
    pub(crate) fn events_path(&self) -> String {
        format!("/v1/runs/{}/events", self.run_id)
    }
}

impl Writer {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let hints: PgConnectOptions = url.parse()?;
        Ok(Self {
            rows: PgConnection::connect(url).await?,
            hints: hints.options([("synchronous_commit", "off")]).connect().await?,
            owner: Uuid::from_u128(rand::random()),
        })
    }

    pub(crate) async fn begin(&mut self) -> Result<Written> {
        let run = Written { session_id: Uuid::from_u128(rand::random()), run_id: Uuid::from_u128(rand::random()), appends: 0 };
        let insert = sqlx::query(include_str!("../sql/run.sql")).bind(run.session_id).bind(run.run_id).bind(self.owner);
        insert.execute(&mut self.rows).await.context("inserting a run")?;
        Ok(run)
    }

    /// Appends so many events in one statement, and wakes whoever follows. When the commit was answered.
    pub(crate) async fn append(&mut self, run: &mut Written, events: usize) -> Result<Instant> {
        self.write(run, vec![TYPE; events], vec![BODY; events], None).await
    }

    /// The last event.
    pub(crate) async fn complete(&mut self, run: &mut Written) -> Result<Instant> {
        self.write(run, vec!["run.completed"], vec![r#"{"usage":{}}"#], Some("COMPLETED")).await
    }

    async fn write(&mut self, run: &mut Written, types: Vec<&str>, bodies: Vec<&str>, status: Option<&str>) -> Result<Instant> {
        let statement = sqlx::query_scalar(include_str!("../sql/append.sql"));
        let statement = statement.bind(run.run_id).bind(self.owner).bind(run.appends).bind(types).bind(bodies).bind(status);
        let head: i64 = statement.fetch_one(&mut self.rows).await.context("appending")?;
        let committed = Instant::now();
        run.appends += 1;
        let wake_up = (vec!["baton_events"], vec![format!("{}:{head}", run.session_id)]);
        sqlx::query(include_str!("../sql/notify.sql")).bind(wake_up.0).bind(wake_up.1).execute(&mut self.hints).await?;
        Ok(committed)
    }

    pub(crate) fn rows(&mut self) -> &mut PgConnection {
        &mut self.rows
    }
}
