//! Making a cluster's data folder, all of it or nothing.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::home::Home;
use super::{Durability, server};
use crate::{Binaries, Error, run};

/// Most of a second on a laptop; a slow disk with fsync takes tens of them.
const INITDB_LIMIT: Duration = Duration::from_secs(120);

/// The prefix of a data folder in the making. One that is there at a start was left by a kill.
const UNFINISHED: &str = "initdb-";

/// The major version that the data folder was made by; `None` when there is none yet.
pub(super) fn existing_major(home: &Home) -> Result<Option<u32>, Error> {
    let path = home.data().join("PG_VERSION");
    match fs::read_to_string(&path) {
        Ok(version) => Ok(version.trim().parse().ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", &path)(error)),
    }
}

/// Runs `initdb` into a sibling and renames it: a data folder under its final name is complete.
pub(super) fn make(home: &Home, binaries: &Binaries, durability: Durability) -> Result<(), Error> {
    remove_unfinished(home.place());
    let unfinished = home.place().join(format!("{UNFINISHED}{}", std::process::id()));
    let mut command = server::command(binaries, "initdb");
    command
        .args(["--username=postgres", "--auth=trust"])
        .args(["--encoding=UTF8", "--locale=C", "--no-instructions"])
        .arg("--pgdata")
        .arg(&unfinished);
    if durability == Durability::Fast {
        command.arg("--no-sync");
    }
    let ended = run::to_end(command, Some(&home.owner()), INITDB_LIMIT)?;
    if !ended.succeeded() {
        return Err(Error::Initdb { data_dir: home.data(), output: run::last_lines(&ended.output, server::TAIL_LINES) });
    }
    let data = home.data();
    fs::rename(&unfinished, &data).map_err(Error::file("create", &data))?;
    // Without this a power cut could lose the name of a cluster whose files were all safely written.
    File::open(home.place()).and_then(|place| place.sync_all()).map_err(Error::file("sync", home.place()))
}

/// Best effort: what cannot be removed now is tried again at the next start, and is in nobody's way.
fn remove_unfinished(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
