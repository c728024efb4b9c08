//! One `dev` for a data folder. The lock is the kernel's: it ends with the process, however that ends.

use std::fs::File;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

use crate::connection::running_dev;
use crate::exit::{Exit, Failure};

#[derive(Debug)]
pub(super) struct Lock {
    _file: Flock<File>,
}

impl Lock {
    pub(super) fn take(data_dir: &Path) -> Result<Self, Failure> {
        let path = data_dir.join("dev.lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| Failure::unavailable("the lock", &error))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Self { _file: file }),
            Err(_) => {
                let at = running_dev(data_dir).map(|dev| format!(" at {}", dev.url)).unwrap_or_default();
                Err(Failure::new(Exit::Conflict, format!("`agentctl dev` runs already{at}: stop it, or give another --data-dir")))
            }
        }
    }
}
