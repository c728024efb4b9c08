//! Where a cluster lives.
//!
//! ```text
//! <data folder>/          ours
//!   lock                  held while the cluster runs
//!   postgres.log          of the last start
//!   cluster/              0700, the owner's: data/, the socket, a fetched server
//!   cluster.path          instead of cluster/: it lives at the path in this file, see `place`
//!   socket.path           the socket lives at the path in this file, see `socket_dir`
//! ```

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::lock::Lock;
use crate::{Error, Owner};

/// Postgres names its socket after the port, which is fixed: the folder tells clusters apart.
pub(super) const PORT: u16 = 5432;
const SOCKET_NAME: &str = ".s.PGSQL.5432";

/// `sockaddr_un` has room for 108 bytes, the last of them NUL.
const SOCKET_PATH_BYTES_MAX: usize = 107;

const CLUSTER_POINTER: &str = "cluster.path";
const SOCKET_POINTER: &str = "socket.path";

/// Short, on a disk, open to every user, and kept over a reboot.
const ELSEWHERE: &str = "/var/tmp";
const ELSEWHERE_PREFIX: &str = "baton-";

/// 64 bits of the hash: enough to tell the data folders of one machine apart, short enough for a socket path.
const HASH_HEX_DIGITS: usize = 16;

/// A data folder that we have locked, and where the parts of its cluster are.
#[derive(Debug)]
pub(super) struct Home {
    dir: PathBuf,
    place: PathBuf,
    socket_dir: PathBuf,
    owner: Owner,
    _lock: Lock,
}

impl Home {
    /// Creates the folder if needed, locks it and finds the place of its cluster.
    pub(super) fn open(data_dir: &Path) -> Result<Home, Error> {
        fs::create_dir_all(data_dir).map_err(Error::file("create", data_dir))?;
        let dir = fs::canonicalize(data_dir).map_err(Error::file("resolve", data_dir))?;
        let lock = Lock::acquire(&dir)?;
        let (place, owner) = place(&dir)?;
        owner.private_dir(&place)?;
        // The path that the kernel shows for a process that works here: see `leftover`.
        let place = fs::canonicalize(&place).map_err(Error::file("resolve", &place))?;
        let socket_dir = socket_dir(&dir, &place)?;
        owner.private_dir(&socket_dir)?;
        Ok(Home { dir, place, socket_dir, owner, _lock: lock })
    }

    /// The user that runs Postgres and owns [`Home::place`].
    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// The folder of everything that Postgres or its owner must reach.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// What Postgres calls its data directory.
    pub(super) fn data(&self) -> PathBuf {
        self.place.join("data")
    }

    /// The folder of the socket.
    pub(super) fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The server's log. In our folder, not in the owner's: root must not write where another user could put a link.
    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("postgres.log")
    }
}

/// Removes a data folder with what lives elsewhere on its behalf.
pub(super) fn remove(data_dir: &Path) -> Result<(), Error> {
    let dir = match fs::canonicalize(data_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        resolved => resolved.map_err(Error::file("resolve", data_dir))?,
    };
    let _lock = Lock::acquire(&dir)?;
    let pointed = [read_pointer(&dir.join(CLUSTER_POINTER))?, read_pointer(&dir.join(SOCKET_POINTER))?];
    for folder in pointed.into_iter().flatten().filter(|target| is_elsewhere(target)).chain([dir]) {
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::file("remove", &folder)(error)),
            _ => {}
        }
    }
    Ok(())
}

/// The folder of the cluster and its owner: where it already is, else inside the data folder, else elsewhere when a
/// parent of the data folder is closed to the owner.
fn place(dir: &Path) -> Result<(PathBuf, Owner), Error> {
    let inside = dir.join("cluster");
    let pointer = dir.join(CLUSTER_POINTER);
    let existing = read_pointer(&pointer)?.unwrap_or_else(|| inside.clone());
    if existing.exists() {
        let owner = Owner::of(&existing)?;
        return Ok((existing, owner));
    }
    let owner = Owner::resolve()?;
    if owner.can_enter(dir)? {
        return Ok((inside, owner));
    }
    let outside = elsewhere(dir);
    write_pointer(&pointer, &outside)?;
    Ok((outside, owner))
}

/// The folder of the socket: with the cluster, else elsewhere when the path would be too long for a socket.
fn socket_dir(dir: &Path, place: &Path) -> Result<PathBuf, Error> {
    if place.join(SOCKET_NAME).as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return Ok(place.to_path_buf());
    }
    let outside = elsewhere(dir);
    write_pointer(&dir.join(SOCKET_POINTER), &outside)?;
    Ok(outside)
}

fn elsewhere(dir: &Path) -> PathBuf {
    let hash = format!("{:x}", Sha256::digest(dir.as_os_str().as_bytes()));
    Path::new(ELSEWHERE).join(format!("{ELSEWHERE_PREFIX}{}", &hash[..HASH_HEX_DIGITS]))
}

/// A pointer file alone is no licence to delete what it names.
fn is_elsewhere(target: &Path) -> bool {
    let name = target.file_name().unwrap_or_default().as_bytes();
    target.parent() == Some(Path::new(ELSEWHERE)) && name.starts_with(ELSEWHERE_PREFIX.as_bytes())
}

fn read_pointer(pointer: &Path) -> Result<Option<PathBuf>, Error> {
    match fs::read(pointer) {
        Ok(bytes) => Ok(Some(PathBuf::from(OsStr::from_bytes(bytes.trim_ascii_end())))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", pointer)(error)),
    }
}

fn write_pointer(pointer: &Path, target: &Path) -> Result<(), Error> {
    let line = [target.as_os_str().as_bytes(), b"\n"].concat();
    fs::write(pointer, line).map_err(Error::file("write", pointer))
}
