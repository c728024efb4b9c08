//! Commands that destroy what they reach, whatever they were meant for.
//!
//! No shell is understood here: quotes and braces are dropped, so that a command inside a string of a command is found too.

use crate::policy::decide::Action;
use crate::policy::hardline::paths::{self, Place};
use crate::policy::hardline::strings;

/// Words that stand before a command and are not it.
const BEFORE: [&str; 10] = ["command", "doas", "env", "exec", "nice", "nohup", "setsid", "sudo", "time", "xargs"];
/// Folders of which a command that changes them whole leaves no working system.
const VITAL: [&str; 20] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/opt",
    "/proc",
    "/root",
    "/sbin",
    "/srv",
    "/sys",
    "/usr",
    "/var",
    "/users",
    "/system",
    "/library",
    "/applications",
    "/windows",
];
/// What the names of disks and memory begin with, behind `/dev/`.
const DEVICES: [&str; 13] = ["disk", "dm-", "hd", "kmem", "mapper/", "md", "mem", "mmcblk", "nvme", "rdisk", "sd", "vd", "xvd"];

pub(super) fn removes_everything(action: &Action<'_>) -> bool {
    any_command(action, |words| {
        let rm = arguments_of(words, &["rm"]).is_some_and(|rest| {
            let forced = rest.iter().any(|word| word == "--no-preserve-root");
            is_recursive(rest) && (forced || rest.iter().any(|word| is_vital(word)))
        });
        let find = arguments_of(words, &["find"]).is_some_and(|rest| {
            let deletes = rest.iter().any(|word| word == "-delete" || word == "rm");
            deletes && rest.iter().find(|word| !word.starts_with('-')).is_some_and(|word| is_vital(word))
        });
        rm || find
    })
}

pub(super) fn opens_everything(action: &Action<'_>) -> bool {
    any_command(action, |words| {
        arguments_of(words, &["chmod", "chown", "chgrp"])
            .is_some_and(|rest| is_recursive(rest) && rest.iter().any(|word| is_vital(word)))
    })
}

pub(super) fn formats_a_disk(action: &Action<'_>) -> bool {
    any_command(action, |words| {
        let names = |word: &str| {
            let name = base(word);
            name.starts_with("mkfs") || ["blkdiscard", "mke2fs", "mkswap", "parted", "sgdisk", "shred", "wipefs"].contains(&name)
        };
        let Some(at) = words.iter().position(|word| names(word)) else { return false };
        words[at + 1..].iter().any(|word| is_device(word))
    })
}

pub(super) fn overwrites_a_disk(action: &Action<'_>) -> bool {
    any_command(action, |words| {
        let dd = arguments_of(words, &["dd"])
            .is_some_and(|rest| rest.iter().filter_map(|word| word.strip_prefix("of=")).any(is_device));
        let tee = arguments_of(words, &["tee"]).is_some_and(|rest| rest.iter().any(|word| is_device(word)));
        dd || tee || words.windows(2).any(|pair| pair[0] == ">" && is_device(&pair[1]))
    })
}

pub(super) fn stops_the_machine(action: &Action<'_>) -> bool {
    any_command(action, |words| {
        let rest = command(words);
        let Some((name, rest)) = rest.split_first() else { return false };
        let says = |any_of: &[&str]| rest.iter().any(|word| any_of.contains(&word.as_str()));
        match base(name) {
            "shutdown" | "reboot" | "halt" | "poweroff" => true,
            "init" | "telinit" => says(&["0", "6"]),
            "systemctl" => says(&["reboot", "halt", "poweroff", "kexec", "rescue", "emergency"]),
            // Behind a signal `-1` is every process; alone it is a signal itself.
            "kill" => rest.len() > 1 && rest.last().is_some_and(|word| word == "-1"),
            _ => false,
        }
    })
}

/// `name(){ name|name& };name`, in any spacing and under any name.
pub(super) fn is_fork_bomb(action: &Action<'_>) -> bool {
    strings::command_lines(action.arguments).any(|line| {
        let squeezed: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        squeezed.match_indices("(){").any(|(at, opening)| {
            let of_name = |c: char| c.is_alphanumeric() || matches!(c, ':' | '_' | '.');
            let before = &squeezed[..at];
            let name = before[before.trim_end_matches(of_name).len()..].trim_start_matches("function");
            !name.is_empty() && squeezed[at + opening.len()..].starts_with(&format!("{name}|{name}&"))
        })
    })
}

fn any_command(action: &Action<'_>, is_wanted: impl Fn(&[String]) -> bool) -> bool {
    strings::command_lines(action.arguments).any(|line| simple_commands(&line).iter().any(|words| is_wanted(words)))
}

/// The commands of a text, each as its words.
fn simple_commands(text: &str) -> Vec<Vec<String>> {
    let text: String = text.replace("\\\n", " ").replace(['\'', '"', '\\', '{', '}'], "").replace("$IFS", " ");
    text.split([';', '|', '&', '\n', '\r', '`', '(', ')'])
        .map(|command| {
            let spaced = command.replace([',', '[', ']'], " ").replace('>', " > ");
            spaced.split_whitespace().map(str::to_owned).collect()
        })
        .collect()
}

/// What follows the first of these commands, wherever it stands.
fn arguments_of<'a>(words: &'a [String], names: &[&str]) -> Option<&'a [String]> {
    let at = words.iter().position(|word| names.contains(&base(word)))?;
    Some(&words[at + 1..])
}

/// From the command on: without what stands before it, and inside a shell that is given it.
fn command(words: &[String]) -> &[String] {
    let inner = words.iter().position(|word| word == "-c").map_or(words, |at| &words[at + 1..]);
    let is_before = |word: &String| BEFORE.contains(&base(word)) || word.contains('=');
    let at = inner.iter().position(|word| !is_before(word)).unwrap_or(inner.len());
    &inner[at..]
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_recursive(words: &[String]) -> bool {
    let short = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.contains(['r', 'R']);
    words.iter().any(|word| word == "--recursive" || word == "--no-preserve-root" || short(word))
}

/// A file system's root, a home, or a folder without which the system does not work: whole.
fn is_vital(word: &str) -> bool {
    let whole = word.trim_end_matches(['*', '.', '/']);
    let is_root = word.starts_with('/') && whole.is_empty();
    is_root || VITAL.contains(&whole.to_ascii_lowercase().as_str()) || is_home(word, whole)
}

fn is_home(word: &str, whole: &str) -> bool {
    paths::place(word) == Place::Home && !whole.contains('/')
}

fn is_device(word: &str) -> bool {
    word.strip_prefix("/dev/").is_some_and(|name| DEVICES.iter().any(|device| name.starts_with(device)))
}
