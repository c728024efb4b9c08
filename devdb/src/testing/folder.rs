//! A temporary folder that outlives neither its process nor, by much, its process's death.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::statvfs::statvfs;
use nix::unistd::Uid;

use crate::{Cluster, Error};

/// Folders of this name are collected as soon as nobody has locked them.
const PREFIX: &str = "baton-test-";

/// A folder that is not locked yet, and therefore must not have the name above.
const PREFIX_UNLOCKED: &str = "baton-unlocked-";

/// A file system in memory, on every Linux; of 64 MB in most containers.
const MEMORY: &str = "/dev/shm";

/// A database of 8 MB for each of several hundred tests, and as much again for a second test process.
const MEMORY_BYTES_MIN: u64 = 8 << 30;

/// The data folder of a cluster, inside a folder that is locked as long as it is wanted. A static is never dropped and a
/// killed process drops nothing, so each creation collects what earlier processes left.
#[derive(Debug)]
pub(super) struct TempFolder {
    path: PathBuf,
    _lock: Flock<File>,
}

impl TempFolder {
    pub(super) fn create() -> Result<TempFolder, Error> {
        for parent in [MEMORY.into(), env::temp_dir()] {
            collect(&parent);
        }
        TempFolder::create_in(&parent())
    }

    fn create_in(parent: &Path) -> Result<TempFolder, Error> {
        let unlocked = tempfile::Builder::new()
            .prefix(PREFIX_UNLOCKED)
            // The cluster's owner may be another user and has to walk through.
            .permissions(fs::Permissions::from_mode(0o711))
            .tempdir_in(parent)
            .map_err(Error::file("create a folder in", parent))?
            .keep();
        let lock = lock(&unlocked).map_err(Error::file("lock", &unlocked))?;
        // Under its final name it is locked from the first moment, and no other process collects it.
        let name = unlocked.file_name().unwrap_or_default().to_string_lossy();
        let path = parent.join(name.replace(PREFIX_UNLOCKED, PREFIX));
        fs::rename(&unlocked, &path).map_err(Error::file("create", &path))?;
        Ok(TempFolder { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn data_dir(&self) -> PathBuf {
        data_dir(&self.path)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Memory if there is plenty, unless the user has chosen a folder. A database is 300 files: on a disk's file system their
/// creation is most of the time of a copy, and ext4 without a journal needs ten times as long for some minutes after each
/// deletion.
fn parent() -> PathBuf {
    let chosen = env::var_os("TMPDIR").is_some();
    let room = statvfs(MEMORY).map_or(0, |stat| stat.blocks_available() * stat.fragment_size());
    if !chosen && room >= MEMORY_BYTES_MIN { MEMORY.into() } else { env::temp_dir() }
}

fn data_dir(folder: &Path) -> PathBuf {
    folder.join("pg")
}

fn lock(folder: &Path) -> io::Result<Flock<File>> {
    Flock::lock(File::open(folder)?, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno.into())
}

/// Removes the folders of processes of ours that are gone.
fn collect(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == Uid::effective().as_raw());
        if !ours || !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        if let Ok(_held) = lock(&entry.path()) {
            remove(&entry.path());
        }
    }
}

/// Best effort: what fails now, perhaps because its Postgres is just ending, is collected by another process.
fn remove(folder: &Path) {
    let _ = Cluster::remove(&data_dir(folder));
    let _ = fs::remove_dir_all(folder);
}

#[cfg(test)]
mod tests;
