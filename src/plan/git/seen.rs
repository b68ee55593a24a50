//! Files of git's own that were in a git directory before the run, by what tells whether one was changed since.
//!
//! Reads the host's files, changes none.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
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

/// Files that name a stash which git puts into the work tree by itself, where they lie, and when: `--autostash` left them.
pub const STASHES: [(&str, &str, &str); 3] = [
    ("", "MERGE_AUTOSTASH", "at the next commit"),
    ("rebase-merge", "autostash", "when the rebase ends, or is given up"),
    ("rebase-apply", "autostash", "when the rebase ends, or is given up"),
];

/// Files by name: the indexes.
pub type Seen = BTreeMap<OsString, Stamp>;

/// The indexes in a git directory, or in the data of a worktree.
#[must_use]
pub fn indexes(directory: &Path) -> Seen {
    let Ok(entries) = fs::read_dir(directory) else { return Seen::new() };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name())).filter(|name| is_index(name));
    // git reads and writes through a link. One of the command's is looked for with the others.
    names
        .filter_map(|name| Some((stamp_of(&fs::metadata(directory.join(&name)).ok()?), name)))
        .map(|(stamp, name)| (name, stamp))
        .collect()
}

impl Stamp {
    /// Device and inode.
    #[must_use]
    pub fn place(&self) -> (u64, u64) {
        self.place
    }
}

/// What has this name.
#[must_use]
pub fn stamp(path: &Path) -> Option<Stamp> {
    fs::symlink_metadata(path).ok().map(|data| stamp_of(&data))
}

fn stamp_of(data: &Metadata) -> Stamp {
    Stamp { place: (data.dev(), data.ino()), size: data.len(), changed: (data.ctime(), data.ctime_nsec()) }
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
        let stashes = STASHES.iter().map(|(place, name, _)| directory.join(place).join(name));
        self.recognised
            .stashes
            .extend(stashes.filter_map(|path| Some((stamp(&path)?, path))).map(|(stamp, path)| (path, stamp)));
        if let Some(why) = rerere::refused(directory, directory) {
            self.warnings.push(format!(
                "'{}' {why}, so git on the host would read or write what it should not: perhaps a command left it behind in a run that \
                 was killed",
                directory.join(rerere::NAME).display()
            ));
        }
    }
}
