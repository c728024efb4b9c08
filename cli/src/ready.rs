//! Files that say where a process is, once it answers.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::commands::dev::provider::Found;

/// Where everything of a running `dev` is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DevReady {
    pub(crate) url: String,
    pub(crate) database_url: String,
    /// Null until there is a listener.
    pub(crate) metrics_url: Option<String>,
    pub(crate) pids: DevPids,
    /// Whom the agent `assistant` asks, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) assistant: Option<Found>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DevPids {
    pub(crate) api: u32,
    pub(crate) workers: Vec<u32>,
}

/// Where one process is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessReady {
    pub(crate) pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
}

/// Writes a file that only its owner reads, whole or not at all.
pub(crate) fn write<T: Serialize>(path: &Path, ready: &T) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(&serde_json::to_vec(ready)?)?;
    file.write_all(b"\n")?;
    drop(file);
    fs::rename(beside, path)
}

/// None: there is no such file, or it is not whole.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
