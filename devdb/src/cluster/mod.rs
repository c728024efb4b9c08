//! A cluster: a data folder and the Postgres that runs on it.

mod home;
mod initdb;
mod leftover;
mod lock;
mod server;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use self::home::{Home, PORT};
use self::server::Server;
use crate::{Binaries, Candidates, Download, Error};

/// Two workers, an API and an operator's command use fewer than 100; tests run dozens of pools at once.
const MAX_CONNECTIONS: u16 = 200;

/// What a crash of the machine may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing that was committed.
    Durable,
    /// Everything: no `fsync`, no full page writes. For tests. A crash of Postgres alone loses nothing even so.
    Fast,
}

/// How to start a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// Created if absent. Holds the cluster, its lock and its log, or says where they are.
    pub data_dir: PathBuf,
    /// What a crash of the machine may cost. May differ from start to start.
    pub durability: Durability,
    /// What to do on a machine without Postgres.
    pub download: Download,
    /// Where to look for a Postgres.
    pub candidates: Candidates,
    /// Sessions that Postgres accepts.
    pub max_connections: u16,
}

impl Options {
    /// Durable, with what this machine has, or else a downloaded server.
    pub fn new(data_dir: impl Into<PathBuf>) -> Options {
        Options {
            data_dir: data_dir.into(),
            durability: Durability::Durable,
            download: Download::IntoDataDir,
            candidates: Candidates::of_this_machine(),
            max_connections: MAX_CONNECTIONS,
        }
    }
}

/// A running private Postgres. Stopped when dropped, and by the kernel when the thread that started it ends.
#[derive(Debug)]
pub struct Cluster {
    server: Server,
    home: Home,
    binaries: Binaries,
    options: Options,
}

impl Cluster {
    /// Makes the cluster if it is not there, starts it and returns once it accepts connections: about 0.7 s the first
    /// time, 0.05 s afterwards. Blocks. Call it from a thread that lives as long as the cluster: see [`crate::child`].
    pub fn start(options: &Options) -> Result<Cluster, Error> {
        let home = Home::open(&options.data_dir)?;
        let existing = initdb::existing_major(&home)?;
        let binaries = Binaries::resolve(&options.candidates, existing, home.owner(), &options.download, home.place())?;
        if existing.is_none() {
            initdb::make(&home, &binaries, options.durability)?;
        }
        Ok(Cluster { server: Server::start(&home, &binaries, options)?, home, binaries, options: options.clone() })
    }

    /// Removes the data folder of a cluster that is not running, and what lives elsewhere on its behalf. Nothing happens if it is
    /// not there.
    pub fn remove(data_dir: &Path) -> Result<(), Error> {
        home::remove(data_dir)
    }

    /// A URL of one of the cluster's databases, for sqlx and `psql` alike. The user is the superuser `postgres`, without
    /// a password: the socket's folder is closed to others.
    pub fn url(&self, database: &str) -> String {
        let database = percent_encoded(OsStr::new(database));
        let host = percent_encoded(self.home.socket_dir().as_os_str());
        format!("postgres://postgres@localhost:{PORT}/{database}?host={host}")
    }

    /// The postmaster's process id.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// The folder of `psql`, `pg_dump` and the like.
    pub fn bindir(&self) -> &Path {
        self.binaries.bindir()
    }

    /// What the cluster runs on.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// The folder of the Unix socket.
    pub fn socket_dir(&self) -> &Path {
        self.home.socket_dir()
    }

    /// The folder of everything that belongs to Postgres.
    pub(crate) fn place(&self) -> &Path {
        self.home.place()
    }

    /// The server's log since its last start.
    pub fn log(&self) -> PathBuf {
        self.home.log()
    }

    /// How Postgres ended, if it has. For a supervisor, which may then [`Cluster::restart`].
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.server.try_wait()
    }

    /// Ends all sessions and stops Postgres cleanly; after 10 s less cleanly. The data folder stays locked.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.server.stop()
    }

    /// Crashes Postgres with `kill -9` and waits until none of its processes is left. The next start recovers.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.server.kill()?;
        leftover::await_end(&self.home.data())
    }

    /// Stops Postgres if it runs, and starts it. Like [`Cluster::start`], it binds Postgres to the calling thread.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.server.stop()?;
        self.server = Server::start(&self.home, &self.binaries, &self.options)?;
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It ends with a kill if need be; should even that fail, nobody is left to tell.
        let _ = self.server.stop();
    }
}

/// Everything but unreserved characters as `%XX`.
fn percent_encoded(text: &OsStr) -> String {
    let encode = |&byte: &u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.as_bytes().iter().map(encode).collect()
}
