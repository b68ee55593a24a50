//! Where a written path leads: made absolute, and the place of what does not exist yet.
//!
//! Adds no rule and makes nothing.

use std::path::{Component, Components, Path, PathBuf};

use super::super::links::{Link, asks_for_directory, beyond};
use crate::error::{Error, Kind, Result};
use crate::host::Host;

/// `~` and relative paths made absolute; links and `..` stay.
pub(crate) fn expand(path: &Path, host: &Host, base: Option<&Path>) -> Result<PathBuf> {
    let refuse =
        |reason: &str| Err(Error::text(Kind::Policy, format!("cannot resolve path '{}': {reason}", path.display())));
    // Without `.`, but with a slash at the end: it asks for a directory.
    let below = |base: &Path, parts: Components| {
        let parts = base.components().chain(parts);
        let mut whole: PathBuf = parts.filter(|part| *part != Component::CurDir).collect();
        if asks_for_directory(path) {
            whole.push("");
        }
        whole
    };
    let mut parts = path.components();
    if let Some(Component::Normal(first)) = parts.next() {
        if first == "~" {
            return match &host.home {
                Some(home) => Ok(below(home, parts)),
                None => refuse("there is no home directory"),
            };
        }
        if first.as_encoded_bytes().starts_with(b"~") {
            return refuse("homes of other users are not looked up; for a file of that name write './~…'");
        }
    }
    match base {
        _ if path.is_absolute() => Ok(below(path, Path::new("").components())),
        Some(base) => Ok(below(base, path.components())),
        None => refuse("it is relative and there is no working directory"),
    }
}

/// Where something that does not exist would be made.
pub(super) struct Place {
    /// The links that lead there.
    pub links: Vec<Link>,
    /// Without links.
    pub path: PathBuf,
    /// The highest part of it that does not exist.
    pub first: PathBuf,
}

/// Where `path`, which does not exist, would be made.
pub(super) fn place(path: &Path) -> std::result::Result<Place, &'static str> {
    let (found, rest) = beyond(path)?;
    let first = found.end.join(rest.iter().next().unwrap_or_default());
    if std::fs::symlink_metadata(&first).is_ok() {
        return Err("a link that leads nowhere");
    }
    Ok(Place { links: found.links, path: found.end.join(rest), first })
}
