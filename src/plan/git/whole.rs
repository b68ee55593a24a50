//! What git asks of a directory before it takes it for a git directory: where it is not content it goes on to the next one, which
//! may be anybody's. Remembers how that was before the run. Reads the host's files, changes none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access, geteuid};

use super::super::build::Builder;
use super::{REPOSITORY, is_missing, looks_like_git_directory};

/// Directories that git looks for beside `HEAD`.
pub const PARTS: [&str; 2] = ["objects", "refs"];

/// More of `HEAD` is not kept: git reads no more than 255 bytes to know it for one.
const HEAD_LENGTH: u64 = 4096;

/// What lets git recognise the repositories in write grants, as it was before the run.
#[derive(Clone, Debug, Default)]
pub struct Recognised {
    /// Git directories, absolute and without links, with what their `HEAD` says.
    pub heads: BTreeMap<PathBuf, Vec<u8>>,
    /// Directories on the way to them that the command can close, with their permission bits.
    pub ways: BTreeMap<PathBuf, u32>,
    /// Directories around a `.git`, themselves none.
    pub around: BTreeSet<PathBuf>,
}

/// What the `HEAD` of a git directory says, where git accepts it.
#[must_use]
pub fn head(directory: &Path) -> Option<Vec<u8>> {
    let path = directory.join("HEAD");
    let data = fs::symlink_metadata(&path).ok()?;
    if data.is_symlink() {
        let branch = fs::read_link(&path).ok()?;
        let branch = branch.as_os_str().as_bytes();
        return branch.starts_with(b"refs/").then(|| [b"ref: ", branch, b"\n"].concat());
    }
    // A FIFO would keep us. Root is above permissions, and may not be the only one who uses it.
    if !data.is_file() || data.mode() & 0o400 == 0 {
        return None;
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path).ok()?;
    let mut text = Vec::new();
    file.take(HEAD_LENGTH).read_to_end(&mut text).ok()?;
    let branch = text.strip_prefix(b"ref:").is_some_and(|branch| branch.trim_ascii_start().starts_with(b"refs/"));
    let commit = text.len() >= 40 && text[..40].iter().all(u8::is_ascii_hexdigit);
    (branch || commit).then_some(text)
}

/// Whether names in the directory `path` can be reached, as far as its owner and we are concerned.
#[must_use]
pub fn is_open(path: &Path) -> bool {
    let open = |data: fs::Metadata| data.is_dir() && data.mode() & 0o100 != 0;
    fs::metadata(path).is_ok_and(open) && (geteuid().is_root() || access(path, AccessFlags::X_OK).is_ok())
}

/// Whether git takes `directory` for a git directory.
#[must_use]
pub fn is_recognised(directory: &Path) -> bool {
    PARTS.iter().all(|name| is_open(&directory.join(name))) && head(directory).is_some()
}

impl Builder<'_> {
    /// Remembers what lets git recognise `directory`, where the command can change that.
    pub(super) fn recognise(&mut self, directory: &Path) {
        let parts = [directory.join("HEAD"), directory.join(PARTS[0]), directory.join(PARTS[1])];
        if !self.view.writable(directory) && !parts.iter().any(|part| self.view.writable(part)) {
            return;
        }
        if is_recognised(directory)
            && let Some(head) = head(directory)
        {
            self.recognised.heads.insert(directory.to_owned(), head);
            self.way_to(directory);
        }
    }

    /// The same for the place of a `.git`: git takes it for a git directory when `.git` is none.
    pub(super) fn around(&mut self, dot_git: &Path, place: &Path) {
        self.way_to(place);
        let parts = REPOSITORY.iter().any(|name| !is_missing(&dot_git.join(name)));
        if !parts || !self.view.writable(place) {
            return;
        }
        if !is_recognised(place) {
            self.recognised.around.insert(place.to_owned());
        }
        if self.view.writable(dot_git) && looks_like_git_directory(dot_git) && !is_recognised(dot_git) {
            self.warnings.push(format!(
                "'{}' is no whole repository (HEAD, objects and refs make one), so git on the host passes over it and obeys the next \
                 one that it finds: perhaps a command has damaged it in a run that was killed",
                dot_git.display()
            ));
        }
    }

    /// Remembers which directories on the way are open: from a closed one git goes on upwards.
    pub(super) fn way_to(&mut self, directory: &Path) {
        for at in directory.ancestors().filter(|at| self.view.writable(at)) {
            let Ok(data) = fs::symlink_metadata(at) else { continue };
            if data.mode() & 0o100 != 0 {
                self.recognised.ways.insert(at.to_owned(), data.mode() & 0o7777);
            }
        }
    }
}
