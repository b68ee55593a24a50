//! Files of git's own that were in a git directory before the run, by what tells whether one was changed since.
//!
//! Reads the host's files, changes none.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use super::rerere;
use crate::plan::build::Builder;

/// What becomes another when somebody writes or replaces a file: nobody but the system sets the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    place: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// Whether another change would be told from the last one, for which clocks of file systems are too slow at first.
    pub(super) fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
        i64::try_from(now).is_ok_and(|now| self.changed.0 + SETTLES < now)
    }
}

/// After so many seconds, with room for a host's clock that is not that of its files.
const SETTLES: i64 = 5;

/// Names a stash that git puts into the work tree by itself at the next commit: one that `git merge --autostash` left.
pub const STASH: &str = "MERGE_AUTOSTASH";

/// Files by name: the indexes.
pub type Seen = BTreeMap<OsString, Stamp>;

/// The indexes in a git directory, or in the data of a worktree.
#[must_use]
pub fn indexes(directory: &Path) -> Seen {
    let Ok(entries) = fs::read_dir(directory) else { return Seen::new() };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name())).filter(|name| is_index(name));
    // A link is looked for with the others.
    let plain = |name: &OsString| !fs::symlink_metadata(directory.join(name)).is_ok_and(|data| data.is_symlink());
    names
        .filter(plain)
        .filter_map(|name| Some((stamp(&directory.join(&name))?, name)))
        .map(|(stamp, name)| (name, stamp))
        .collect()
}

/// What has this name.
#[must_use]
pub fn stamp(path: &Path) -> Option<Stamp> {
    let data = fs::symlink_metadata(path).ok()?;
    Some(Stamp { place: (data.dev(), data.ino()), size: data.len(), changed: (data.ctime(), data.ctime_nsec()) })
}

/// Also one that an index names as the base of what it says.
pub(super) fn is_index(name: &OsStr) -> bool {
    name == "index" || name.as_bytes().starts_with(b"sharedindex.")
}

impl Builder<'_> {
    /// Remembers what is in a git directory, or in the data of a worktree, that can be written.
    pub(super) fn see(&mut self, directory: &Path) {
        if self.recognised.seen.contains_key(directory) {
            return;
        }
        self.recognised.seen.insert(directory.to_owned(), indexes(directory));
        self.recognised.stashes.extend(stamp(&directory.join(STASH)).map(|stamp| (directory.to_owned(), stamp)));
        if let Some(why) = rerere::refused(directory, directory) {
            self.warnings.push(format!(
                "'{}' {why}, so git on the host would read or write what it should not: perhaps a command left it behind in a run that \
                 was killed",
                directory.join(rerere::NAME).display()
            ));
        }
    }
}
