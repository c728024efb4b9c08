//! Folders of TOML files, as agents and policy profiles come.

use std::path::{Path, PathBuf};

/// Files of a folder at most: a wrong folder must not become a day of parsing.
const FILES_MAX: usize = 1_000;

/// Why a folder gives no files. A folder without any is most likely the wrong one.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("the folder `{0}` cannot be read")]
    Unreadable(PathBuf, #[source] std::io::Error),
    #[error("the folder `{0}` holds no `*.toml`, or more than {FILES_MAX}")]
    Count(PathBuf),
}

/// The texts of the files, each with its path for messages, in the order of their names.
pub(crate) fn read(folder: &Path) -> Result<Vec<(String, String)>, FolderError> {
    let unreadable = |error| FolderError::Unreadable(folder.to_owned(), error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() || files.len() > FILES_MAX {
        return Err(FolderError::Count(folder.to_owned()));
    }
    files.into_iter().map(|path| Ok((path.display().to_string(), std::fs::read_to_string(&path).map_err(unreadable)?))).collect()
}
