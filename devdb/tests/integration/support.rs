//! A data folder per test, waiting with a deadline, and a look at the processes of the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use baton_devdb::{Cluster, Options, testing};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

/// How long a condition may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often it is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A data folder that goes with the test, what lives elsewhere on its behalf included.
pub(crate) struct DataDir {
    _parent: TempDir,
    pub(crate) path: PathBuf,
}

impl DataDir {
    /// Every user may walk to it.
    pub(crate) fn open(relative: &str) -> DataDir {
        DataDir::new(relative, 0o711)
    }

    /// Only we may walk to it.
    pub(crate) fn closed(relative: &str) -> DataDir {
        DataDir::new(relative, 0o700)
    }

    fn new(relative: &str, mode: u32) -> DataDir {
        let parent =
            tempfile::Builder::new().permissions(fs::Permissions::from_mode(mode)).tempdir().expect("a temporary folder");
        let path = parent.path().join(relative);
        DataDir { _parent: parent, path }
    }

    pub(crate) fn options(&self) -> Options {
        testing::options(&self.path)
    }

    pub(crate) fn start(&self) -> Cluster {
        Cluster::start(&self.options()).expect("a cluster")
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        let _ = Cluster::remove(&self.path);
    }
}

pub(crate) fn await_until(what: &str, mut condition: impl FnMut() -> bool) {
    let mut waited = Duration::ZERO;
    while !condition() {
        assert!(waited < PATIENCE, "waited {waited:?} in vain: {what}");
        thread::sleep(POLL_INTERVAL);
        waited += POLL_INTERVAL;
    }
}

/// The processes that work in `folder` or below, as all of Postgres does in its data folder.
pub(crate) fn processes_in(folder: &Path) -> Vec<PathBuf> {
    let folder = fs::canonicalize(folder).expect("the folder");
    let processes = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    processes.filter(|process| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&folder))).collect()
}

pub(crate) async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("a session")
}

pub(crate) async fn execute(session: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(session).await.expect("the statement runs");
}

pub(crate) async fn count(session: &mut PgConnection, table: &str) -> i64 {
    let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    sqlx::query_scalar(sql).fetch_one(session).await.expect("a count")
}
