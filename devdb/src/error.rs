//! The one error of this crate. Each message ends with what to do next.

use std::error;
use std::io;
use std::path::{Path, PathBuf};

/// What keeps a private Postgres from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("cannot {action} {}; check its permissions or choose another data folder", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },

    /// A program could not be run at all.
    #[error("cannot run {}; check that it exists and that this user may run it", program.display())]
    Program { program: PathBuf, source: io::Error },

    /// A signal could not be sent to Postgres, or its end could not be awaited.
    #[error("cannot {action} the Postgres with pid {pid}; end it by hand with `kill -INT {pid}`")]
    Process { action: &'static str, pid: u32, source: io::Error },

    /// `BATON_PG_BINDIR` was given and is not usable.
    #[error("BATON_PG_BINDIR={} is not usable: {why}; correct it or unset it", bindir.display())]
    Bindir { bindir: PathBuf, why: String },

    /// There is no Postgres here that this crate can run.
    #[error(
        "no usable PostgreSQL on this machine ({why}); install one, as with `apt-get install {package}`, or set BATON_PG_BINDIR \
         or DATABASE_URL"
    )]
    NoPostgres { why: String, package: String },

    /// The data folder belongs to a running process.
    #[error(
        "the data folder {} is in use by the process with pid {pid}; stop that one or choose another data folder",
        data_dir.display()
    )]
    Locked { data_dir: PathBuf, pid: String },

    /// The Postgres of a process that is gone has not ended.
    #[error(
        "a Postgres of an earlier run (pid {pid}) still uses {} after {waited_secs} s; end it with `kill -INT {pid}` \
         and start again",
        data_dir.display()
    )]
    Leftover { data_dir: PathBuf, pid: i32, waited_secs: u64 },

    /// A folder that must be private is somebody else's, or open to others.
    #[error(
        "{} must be a folder of user {wanted} with mode 0700 and is not; remove it, or run as the user it belongs to",
        path.display()
    )]
    NotPrivate { path: PathBuf, wanted: u32 },

    /// Root must hand Postgres to another user, and the machine has neither of the two that are tried.
    #[error("Postgres refuses to run as root and there is no user `postgres` or `nobody`; create one, or do not be root")]
    NoOwner,

    /// `initdb` failed or took too long.
    #[error("initdb could not make {}; correct what its output says and start again:\n{output}", data_dir.display())]
    Initdb { data_dir: PathBuf, output: String },

    /// Postgres ended or hung before it accepted connections.
    #[error("Postgres did not start ({why}); correct what its log {} says and start again:\n{output}", log.display())]
    Start { why: String, log: PathBuf, output: String },

    /// An administrative statement failed.
    #[error("cannot {action} the database {database:?}; see postgres.log in the data folder")]
    Sql { action: &'static str, database: String, source: sqlx::Error },

    /// The caller's migration of a template failed.
    #[error("cannot migrate the template database {database:?}; correct the migration and start again")]
    Migrate { database: String, source: Box<dyn error::Error + Send + Sync> },
}

impl Error {
    /// For `map_err`: a failed `action` on `path`, as in "cannot create /data".
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { action, path, source }
    }
}
