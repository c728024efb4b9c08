//! Paths out of the workspace, into the host.

use url::Url;

use crate::policy::decide::Action;
use crate::policy::hardline::strings;
use crate::tools::SideEffect;

/// First folders of absolute paths on the systems that Baton runs on, lower case.
const SYSTEM: [&str; 29] = [
    "applications",
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "library",
    "media",
    "mnt",
    "nix",
    "opt",
    "private",
    "proc",
    "root",
    "run",
    "sbin",
    "snap",
    "srv",
    "sys",
    "system",
    "tmp",
    "usr",
    "users",
    "var",
    "volumes",
    "windows",
];
/// Those of them that hold programs and libraries, or what any program needs: code names them all the time.
const OF_PROGRAMS: [&str; 9] = ["bin", "lib", "lib32", "lib64", "nix", "opt", "sbin", "tmp", "usr"];
const DEVICES_OF_PROGRAMS: [&str; 10] = ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom"];

/// Where a path leads, by its text alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Workspace,
    System,
    Home,
    Above,
}

pub(super) fn is_system_path(action: &Action<'_>) -> bool {
    leads_to(action, Place::System)
}

pub(super) fn is_home_path(action: &Action<'_>) -> bool {
    leads_to(action, Place::Home)
}

pub(super) fn is_traversal(action: &Action<'_>) -> bool {
    leads_to(action, Place::Above)
}

/// A tool of the workspace takes a path as a string by itself, and a string of several lines is what it is to write. Code
/// names paths anywhere.
fn leads_to(action: &Action<'_>, wanted: Place) -> bool {
    strings::texts(action.arguments).any(|text| match action.side_effect {
        SideEffect::CodeExecution => named_in_code(text, wanted),
        _ => !text.trim().contains('\n') && place(text.trim()) == wanted,
    })
}

fn named_in_code(code: &str, wanted: Place) -> bool {
    let mut before = "";
    strings::words(code).any(|word| {
        let entered = std::mem::replace(&mut before, word) == "cd";
        // Alone, `/`, `~` and `..` are operators of some language.
        (entered || !matches!(word, "/" | "//" | "~" | "..")) && place(word) == wanted && !is_of_programs(word)
    })
}

pub(super) fn place(path: &str) -> Place {
    let file = path.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:"));
    if let Some(local) = file.and_then(|_| Url::parse(path).ok()).and_then(|url| url.to_file_path().ok()) {
        return within(&local.to_string_lossy());
    }
    within(path)
}

fn within(path: &str) -> Place {
    let path = path.replace('\\', "/");
    let first = path.split('/').next().unwrap_or_default();
    let has_more = path.len() > first.len();
    let is_of_user = first.strip_prefix('~').is_some_and(is_user_name) && has_more;
    if first == "~" || is_of_user || is_home_variable(first) {
        return Place::Home;
    }
    let is_absolute = path.starts_with('/') || is_drive(first);
    let mut open: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part != ".." {
            open.push(part);
        } else if open.pop().is_none() && !is_absolute {
            return Place::Above;
        }
    }
    let is_system = |part: &&str| is_drive(part) || SYSTEM.contains(&part.to_ascii_lowercase().as_str());
    if is_absolute && open.first().is_none_or(is_system) { Place::System } else { Place::Workspace }
}

/// So that `~5 km/h` is prose.
fn is_user_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

fn is_home_variable(part: &str) -> bool {
    ["$home", "${home}", "%userprofile%", "$env:userprofile"].contains(&part.to_ascii_lowercase().as_str())
}

fn is_drive(part: &str) -> bool {
    matches!(part.as_bytes(), [letter, b':'] if letter.is_ascii_alphabetic())
}

/// Whether a system path is one that any program may name. Only as it stands: with `..` in it, it leads elsewhere.
fn is_of_programs(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    !path.contains("..") && (OF_PROGRAMS.contains(&first) || (first == "dev" && DEVICES_OF_PROGRAMS.contains(&second)))
}
