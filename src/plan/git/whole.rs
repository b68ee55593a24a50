//! What git asks of a directory before it takes it for a git directory: where it is not content it goes on to the next one, which
//! may be anybody's. Remembers how that was before the run. Reads the host's files, changes none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use nix::unistd::{AccessFlags, access, geteuid};

use super::super::build::Builder;
use super::kept::{Entries, Given};
use super::refs::leads_out;
use super::seen::{Seen, Stamp};
use super::strays::Known;
use super::{COMMON, REPOSITORY, is_missing, looks_like_git_directory};
use crate::sys::acl::{self, List};

/// Directories that git looks for beside `HEAD`.
pub const PARTS: [&str; 2] = ["objects", "refs"];

/// git reads no more of `HEAD` to know it for one.
const HEAD_READ: usize = 255;

/// More of it is not kept.
const HEAD_KEPT: u64 = 4096;

/// What lets git recognise the repositories in write grants, as it was before the run.
#[derive(Clone, Debug, Default)]
pub struct Recognised {
    /// Git directories, absolute and without links.
    pub whole: BTreeMap<PathBuf, Whole>,
    /// Directories on the way to them that the command can close, with their permission bits.
    pub ways: BTreeMap<PathBuf, u32>,
    /// Directories around a `.git`, themselves none.
    pub around: BTreeMap<PathBuf, Around>,
    /// Links in git directories that can be written.
    pub links: BTreeMap<PathBuf, Known>,
    /// Files of git directories and of the data of worktrees that can be written.
    pub seen: BTreeMap<PathBuf, Seen>,
    /// What [`STASHES`](super::seen::STASHES) were in those.
    pub stashes: BTreeMap<PathBuf, Stamp>,
    /// What git obeys, wherever it lies: absolute, without links, perhaps missing.
    pub obeyed: BTreeSet<PathBuf>,
    /// Work trees of git directories and of the data of worktrees.
    pub tops: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    /// Work trees that the caller's environment gives all of them.
    pub given_tops: BTreeSet<PathBuf>,
    /// Indexes that it names.
    pub given: Vec<Given>,
    /// What indexes had in places that are kept: by directory, or by the file that the environment names.
    pub entries: BTreeMap<PathBuf, Entries>,
}

/// A git directory as git takes it.
#[derive(Clone, Debug)]
pub struct Whole {
    /// What its `HEAD` says.
    pub head: Vec<u8>,
    /// What the [`PARTS`] are.
    pub parts: [Part; 2],
    /// Permission bits of `HEAD` and of the parts.
    pub modes: [u32; 3],
    /// Its own permission bits, where others use it as well: another user's, or one of a group.
    pub shared: Option<u32>,
    /// What is made in it, and in the parts, begins with these access control lists.
    pub lists: [Option<Vec<u8>>; 3],
}

/// Where lists are that what is made in a git directory begins with.
pub const LISTED: [&str; 3] = [".", PARTS[0], PARTS[1]];

/// What has the name of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// With its device and inode.
    Directory(u64, u64),
    /// With its text.
    Link(PathBuf),
}

impl Part {
    /// What has the name `path` now; `None` when it can be no part.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        let data = fs::symlink_metadata(path).ok()?;
        if data.is_symlink() {
            return fs::read_link(path).ok().map(Self::Link);
        }
        data.is_dir().then(|| Self::Directory(data.dev(), data.ino()))
    }
}

/// The place of a `.git`.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Whether some git may already take it for a git directory.
    pub acceptable: bool,
    /// Whether its `.git` is whole.
    pub whole: bool,
}

/// What the `HEAD` of a git directory says, where git accepts it.
#[must_use]
pub fn head(directory: &Path) -> Option<Vec<u8>> {
    let path = directory.join("HEAD");
    let data = fs::symlink_metadata(&path).ok()?;
    if data.is_symlink() {
        let branch = fs::read_link(&path).ok()?;
        return is_branch(&branch).then(|| [b"ref: ", branch.as_os_str().as_bytes(), b"\n"].concat());
    }
    // A FIFO would keep us. Root is above permissions, and may not be the only one who uses it.
    if !data.is_file() || data.mode() & 0o400 == 0 {
        return None;
    }
    content(&path).ok().filter(|text| is_head(text) && leads_out(text).is_none())
}

/// Whether the text of a link is git's old form of a `HEAD`.
#[must_use]
pub fn is_branch(text: &Path) -> bool {
    text.as_os_str().as_bytes().starts_with(b"refs/") && !text.components().any(|part| part == Component::ParentDir)
}

fn content(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let mut text = Vec::new();
    file.take(HEAD_KEPT).read_to_end(&mut text)?;
    Ok(text)
}

fn is_head(text: &[u8]) -> bool {
    let text = &text[..text.len().min(HEAD_READ)];
    let name = |text: &[u8]| {
        let start = text.iter().position(|byte| !b" \t\n\r".contains(byte));
        start.is_some_and(|start| text[start..].starts_with(b"refs/"))
    };
    let commit = text.len() >= 40 && text[..40].iter().all(u8::is_ascii_hexdigit);
    commit || text.strip_prefix(b"ref:").is_some_and(name)
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

/// Whether some git may take `directory` for a git directory. To git a part is what can be executed, root is above permissions,
/// and the parts are elsewhere where a `commondir` says so. `any_head`: others do not read `HEAD`.
#[must_use]
pub fn is_acceptable(directory: &Path, any_head: bool) -> bool {
    let has = |name: &str| fs::symlink_metadata(directory.join(name)).is_ok();
    if !has(COMMON) && !PARTS.iter().all(|name| has(name)) {
        return false;
    }
    let path = directory.join("HEAD");
    let Ok(data) = fs::symlink_metadata(&path) else { return false };
    if data.is_symlink() {
        return any_head || fs::read_link(&path).is_ok_and(|text| text.as_os_str().as_bytes().starts_with(b"refs/"));
    }
    // What we cannot read others may.
    data.is_file() && (any_head || content(&path).map_or(true, |text| is_head(&text)))
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
            && let [Some(objects), Some(refs)] = PARTS.map(|name| Part::at(&directory.join(name)))
        {
            let mode = |name| fs::metadata(directory.join(name)).map_or(0o644, |data| data.mode() & 0o7777);
            let list = |name| acl::of(&directory.join(name), List::Default).ok().flatten();
            let modes = ["HEAD", PARTS[0], PARTS[1]].map(mode);
            let shared = fs::metadata(directory).ok();
            let shared = shared.filter(|data| data.mode() & 0o022 != 0 || data.uid() != geteuid().as_raw());
            let shared = shared.map(|data| data.mode() & 0o7777);
            let whole = Whole { head, parts: [objects, refs], modes, shared, lists: LISTED.map(list) };
            self.recognised.whole.insert(directory.to_owned(), whole);
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
        let whole = is_recognised(dot_git);
        if !is_recognised(place) {
            let around = Around { acceptable: is_acceptable(place, false), whole };
            self.recognised.around.insert(place.to_owned(), around);
        }
        if self.view.writable(dot_git) && !whole && looks_like_git_directory(dot_git) {
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
