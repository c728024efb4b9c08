//! Clusters that are thrown away: one that a test process shares, or one of a test's own.

mod folder;
mod reaper;

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::thread;

use nix::unistd::Uid;

use self::folder::TempFolder;
use crate::{Cluster, Download, Durability, Error, Options};

/// Readable by all, and kept over a reboot. The user's id follows.
const DOWNLOAD_DIR: &str = "/var/tmp/baton-test-server";

static SHARED: OnceLock<TempCluster> = OnceLock::new();

/// The cluster of this test process, started at the first call. It is not durable, and ends with the process.
///
/// # Panics
/// When it cannot be started: a test has no use for the error but to show it.
pub fn shared() -> &'static Cluster {
    SHARED.get_or_init(|| {
        let cluster = start_in_keeper().unwrap_or_else(|error| panic!("no Postgres for the tests: {error}"));
        reaper::spawn(cluster.place(), [cluster.socket_dir(), cluster.folder.path()]);
        cluster
    })
}

/// Starts the shared cluster in a thread that never ends. The death signal belongs to the thread that spawns, and the
/// test harness ends a thread with each test.
fn start_in_keeper() -> Result<TempCluster, Error> {
    let (sender, started) = mpsc::channel();
    thread::Builder::new()
        .name("postgres-keeper".to_owned())
        .spawn(move || {
            // Nobody hears this only when `shared` has panicked.
            let _ = sender.send(TempCluster::start());
            loop {
                thread::park();
            }
        })
        .expect("a test process can start one more thread");
    started.recv().expect("the keeper sends before it parks")
}

/// How the clusters of tests are started: not durable, and on a machine without Postgres with one download for all.
pub fn options(data_dir: impl Into<PathBuf>) -> Options {
    let download = Download::Into(format!("{DOWNLOAD_DIR}-{}", Uid::effective()).into());
    Options { durability: Durability::Fast, download, ..Options::new(data_dir) }
}

/// A cluster in a temporary folder; both go when it is dropped. For a test that stops or crashes its Postgres.
#[derive(Debug)]
pub struct TempCluster {
    // Before its folder: fields are dropped in this order.
    cluster: Cluster,
    folder: TempFolder,
}

impl TempCluster {
    /// Starts a cluster of its own, bound to the calling thread as [`Cluster::start`] says.
    pub fn start() -> Result<TempCluster, Error> {
        let folder = TempFolder::create()?;
        Ok(TempCluster { cluster: Cluster::start(&options(folder.data_dir()))?, folder })
    }
}

impl Deref for TempCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl DerefMut for TempCluster {
    fn deref_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }
}
