//! `MERGE_RR`, the list of files in conflict: git on the host reads those that it names, and writes them, at the next commit. It does
//! not look where they lie.
//!
//! Reads files, changes none.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::paths::is_refused;
use super::{is_too_long, path_in, read, setting};

/// Its name in a git directory and in the data of a worktree.
pub const NAME: &str = "MERGE_RR";

/// No list has as many variants of one conflict.
const LONGEST_VARIANT: usize = 6;

/// Why the list in a git directory, or in the data of a worktree, cannot be git's own; `None` where there is none, too. `looked` is
/// where the `directory` is looked at.
#[must_use]
pub fn refused(directory: &Path, looked: &Path) -> Option<String> {
    let text = match read(&looked.join(NAME)) {
        Ok(text) => text?,
        Err(error) if is_too_long(&error) => return Some("is larger than 16 MiB".into()),
        // git cannot read it, either.
        Err(_) => return None,
    };
    let Some(paths) = parse(&text) else { return Some("is none that git would write".into()) };
    let top = work_tree(directory, looked);
    let refused =
        paths.into_iter().find(|path| is_refused(path, false) || top.as_ref().is_some_and(|top| has_link(top, path)));
    refused.map(|path| format!("names '{}'", OsStr::from_bytes(path).display()))
}

/// The paths in a list, if it is one.
fn parse(text: &[u8]) -> Option<Vec<&[u8]>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.strip_suffix(b"\0")?.split(|byte| *byte == 0).map(path).collect()
}

fn path(record: &[u8]) -> Option<&[u8]> {
    let end = record.iter().position(|byte| *byte == b'\t')?;
    let (name, path) = (&record[..end], &record[end + 1..]);
    let (hash, variant) = match name.iter().position(|byte| *byte == b'.') {
        Some(dot) => (&name[..dot], Some(&name[dot + 1..])),
        None => (name, None),
    };
    let plain = variant
        .is_none_or(|variant| (1..=LONGEST_VARIANT).contains(&variant.len()) && variant.iter().all(u8::is_ascii_digit));
    let known = matches!(hash.len(), 40 | 64) && hash.iter().all(u8::is_ascii_hexdigit);
    (plain && known).then_some(path)
}

/// Where the paths count from.
fn work_tree(directory: &Path, looked: &Path) -> Option<PathBuf> {
    if let Some(path) = setting(looked, "core", "worktree") {
        return Some(directory.join(path));
    }
    if directory.file_name().is_some_and(|name| name == ".git") {
        return directory.parent().map(Path::to_owned);
    }
    path_in(&looked.join("gitdir"), "").ok()??.parent().map(Path::to_owned)
}

/// Whether a link, which git would follow, is on the way or at its end.
fn has_link(top: &Path, path: &[u8]) -> bool {
    let is_link = |part: &Path| fs::symlink_metadata(top.join(part)).is_ok_and(|data| data.is_symlink());
    Path::new(OsStr::from_bytes(path)).ancestors().any(|part| !part.as_os_str().is_empty() && is_link(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_git_writes_them() {
        let hash = "0123456789abcdef0123456789ABCDEF01234567";
        let parsed = |text: &str| parse(text.replace("HASH", hash).as_bytes()).map(|paths| paths.len());
        for (text, count) in [("", 0), ("HASH\ta\0", 1), ("HASH.12\ta b\0HASH\tc\0", 2), ("HASH\t\0", 1)] {
            assert_eq!(parsed(text), Some(count), "{text:?}");
        }
        for text in [
            "x",
            "\0",
            "HASH\ta",
            "HASH\ta\0x",
            "HASH.-1\ta\0",
            "HASH.\ta\0",
            "HASH. 1\ta\0",
            "HASH.1x\ta\0",
            "HASHa\tb\0",
            "HASH a\0",
        ] {
            assert_eq!(parsed(text), None, "{text:?}");
        }
    }
}
