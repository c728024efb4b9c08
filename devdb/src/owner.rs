//! Who runs Postgres: ourselves, or another user when we are root, which Postgres refuses to be.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::Path;

use nix::unistd::{Gid, Uid, User};

use crate::Error;

/// Tried in this order when we are root. `nobody` exists wherever there is a C library.
const OWNERS_FOR_ROOT: [&str; 2] = ["postgres", "nobody"];

/// The user and group that Postgres runs as and that own its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
}

impl Owner {
    /// The owner of a new cluster: ourselves, or `postgres`, else `nobody`, when we are root.
    pub fn resolve() -> Result<Owner, Error> {
        if !Uid::effective().is_root() {
            return Ok(Owner::ourselves());
        }
        OWNERS_FOR_ROOT
            .iter()
            .find_map(|name| User::from_name(name).ok().flatten())
            .map(|user| Owner { uid: user.uid, gid: user.gid })
            .ok_or(Error::NoOwner)
    }

    /// The owner of a cluster that exists. Root follows whoever made it, so that `sudo` opens a user's cluster.
    pub(crate) fn of(folder: &Path) -> Result<Owner, Error> {
        let metadata = fs::symlink_metadata(folder).map_err(Error::file("read", folder))?;
        let found = Owner { uid: Uid::from_raw(metadata.uid()), gid: Gid::from_raw(metadata.gid()) };
        let ours = Owner::ourselves();
        match (ours.uid.is_root(), found.uid.is_root()) {
            (true, false) => Ok(found),
            (false, _) if found.uid == ours.uid => Ok(ours),
            _ => Err(Error::NotPrivate { path: folder.to_path_buf(), wanted: Owner::resolve()?.uid.as_raw() }),
        }
    }

    /// Whether this is the user we already are, so that nothing needs handing over.
    pub(crate) fn is_ourselves(self) -> bool {
        self.uid == Uid::effective()
    }

    fn ourselves() -> Owner {
        Owner { uid: Uid::effective(), gid: Gid::effective() }
    }

    /// Makes `folder` with mode 0700 for this owner, or checks that it is already so: the name may be predictable and
    /// in a folder that everybody can write.
    pub(crate) fn private_dir(self, folder: &Path) -> Result<(), Error> {
        match fs::DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) if self.is_ourselves() => return Ok(()),
            Ok(()) => {
                return chown(folder, Some(self.uid.as_raw()), Some(self.gid.as_raw())).map_err(Error::file("hand over", folder));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::file("create", folder)(error)),
        }
        let metadata = fs::symlink_metadata(folder).map_err(Error::file("read", folder))?;
        let private = metadata.is_dir() && metadata.uid() == self.uid.as_raw() && metadata.mode() & 0o077 == 0;
        private.then_some(()).ok_or_else(|| Error::NotPrivate { path: folder.to_path_buf(), wanted: self.uid.as_raw() })
    }

    /// Whether this owner may walk to `folder`, an absolute path, judged by the modes of it and all its parents.
    ///
    /// An access control list can open what a mode closes; then the cluster lives elsewhere without need, and works.
    pub(crate) fn can_enter(self, folder: &Path) -> Result<bool, Error> {
        if self.is_ourselves() {
            return Ok(true);
        }
        for step in folder.ancestors() {
            let metadata = fs::metadata(step).map_err(Error::file("read", step))?;
            let search = if metadata.uid() == self.uid.as_raw() {
                0o100
            } else if metadata.gid() == self.gid.as_raw() {
                0o010
            } else {
                0o001
            };
            if metadata.mode() & search == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
