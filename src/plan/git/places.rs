//! Work trees whose place the data of worktrees and submodules names: git on the host writes, empties and removes them, and follows a
//! link there.
//!
//! Reads the host's files, changes none.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::super::Absent;
use super::super::build::Builder;
use super::super::links::walk;
use super::{read, setting};

impl Builder<'_> {
    /// For the data of a linked worktree.
    pub(super) fn no_link_to_worktree(&mut self, data: &Path) {
        if let Some(place) = work_tree(data) {
            self.no_link_made(&place);
        }
    }

    /// For the data of a submodule.
    pub(super) fn no_link_to_work_tree(&mut self, data: &Path) {
        if let Some(place) = setting(data, "core", "worktree") {
            self.no_link_made(&data.join(place));
        }
    }

    /// Sees to it that the command leaves no link on the way to `place` where none was.
    fn no_link_made(&mut self, place: &Path) {
        let place = straight(place);
        let grants = self.view.write_grants().filter(|grant| place != **grant && place.starts_with(grant));
        // Above it nothing can be replaced.
        let Some(grant) = grants.max_by_key(|grant| grant.components().count()).map(Path::to_owned) else { return };
        let Ok(metadata) = fs::symlink_metadata(&grant) else { return };
        let mut below = place.ancestors().take_while(|at| *at != grant);
        let linked = below.any(|at| fs::symlink_metadata(at).is_ok_and(|data| data.is_symlink()));
        if let (false, Ok(name)) = (linked, place.strip_prefix(&grant)) {
            let (name, mode) = (name.to_owned(), metadata.mode() & 0o7777);
            self.absent.insert(Absent { directory: grant, name, mode, links_only: true, obeyed_by: "git on the host" });
        }
    }
}

/// Where the data of a linked worktree says that it is.
pub(super) fn work_tree(data: &Path) -> Option<PathBuf> {
    let text = read(&data.join("gitdir")).ok().flatten()?;
    let dot_git = data.join(OsStr::from_bytes(text.trim_ascii_end()));
    dot_git.parent().map(Path::to_owned)
}

/// The work tree of a git directory, or of the data of a worktree, as it names it.
#[must_use]
pub fn work_tree_of(directory: &Path) -> Option<PathBuf> {
    let named = setting(directory, "core", "worktree").map(|place| directory.join(place));
    let beside = || directory.parent().filter(|_| directory.ends_with(".git")).map(Path::to_owned);
    work_tree(directory).or(named).map(|place| straight(&place)).or_else(beside)
}

/// Where `path` leads; without `.` and `..` where nothing is there.
pub(super) fn place_of(path: &Path) -> PathBuf {
    walk(path).map_or_else(|_| straight(path), |found| found.end)
}

/// `path` without `.` and `..`, which is where it leads as long as there is no link on it.
fn straight(path: &Path) -> PathBuf {
    let mut end = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(end.pop()),
            part => end.push(part),
        }
    }
    end
}
