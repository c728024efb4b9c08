//! One process per data folder.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process;

use nix::fcntl::{Flock, FlockArg};

use crate::Error;

/// Held while a cluster lives. The kernel lets go of it when the process ends, however it ends; the file, with the
/// pid of its last holder, stays.
#[derive(Debug)]
pub(super) struct Lock {
    _held: Flock<File>,
}

impl Lock {
    /// Takes the lock of `data_dir`, or says who has it.
    pub(super) fn acquire(data_dir: &Path) -> Result<Lock, Error> {
        let path = data_dir.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(Error::file("open", &path))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut held) => {
                // Only for the message of whoever comes second; the lock itself does not depend on it.
                held.set_len(0).and_then(|()| writeln!(held, "{}", process::id())).map_err(Error::file("write", &path))?;
                Ok(Lock { _held: held })
            }
            Err((mut file, _)) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).map_err(Error::file("read", &path))?;
                Err(Error::Locked { data_dir: data_dir.to_path_buf(), pid: pid.trim().to_owned() })
            }
        }
    }
}
