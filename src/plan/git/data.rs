//! Whose data a worktree or submodule has: the word of the data counts, not that of the `.git` that names it.
//!
//! Reads the host's files, changes none.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::super::links::walk;
use super::{COMMON, GITDIR, is_git_directory, path_in, read, settings};

/// The git directory that a `.git` file names.
fn named_directory(dot_git: &Path) -> Option<PathBuf> {
    path_in(dot_git, GITDIR).ok()?.filter(|path| path.is_dir())
}

/// The common directory of the data of a linked worktree.
pub(super) fn common_directory(named: &Path) -> Option<PathBuf> {
    path_in(&named.join(COMMON), "").ok()?.filter(|path| path.is_dir())
}

/// Whether the repository `common` keeps `named` as the data of the worktree whose `.git` is `dot_git`.
pub(super) fn is_linked(named: &Path, common: &Path, dot_git: &Path) -> bool {
    let inside = named.parent().is_some_and(|above| above.ends_with("worktrees") && above.parent() == Some(common));
    // By its name a directory of nothing but git's own: what is planted in one of the user's does not open that.
    let by_name = common.file_name().is_some_and(|name| name == ".bare" || name.as_bytes().ends_with(b".git"));
    inside
        && by_name
        && is_git_directory(common)
        && path_in(&named.join("gitdir"), "").ok().flatten().is_some_and(|path| path == dot_git)
}

/// Whether `named` is the git directory of a submodule that is checked out in `place`, by its own word.
pub(super) fn is_submodule(named: &Path, place: &Path) -> bool {
    let modules = named.ancestors().any(|above| above.ends_with(".git/modules"));
    let worktree = if modules { setting(named, "core", "worktree") } else { None };
    is_git_directory(named)
        && worktree.and_then(|path| walk(&named.join(path)).ok()).is_some_and(|found| found.end == place)
}

/// What the settings of a git directory say, without those that they include.
pub(super) fn setting(directory: &Path, section: &str, key: &str) -> Option<PathBuf> {
    let settings = settings::parse(&read(&directory.join("config")).ok()??);
    let mut named = settings.into_iter().filter(|one| one.section == section && one.below.is_empty() && one.key == key);
    named.next_back().map(|one| std::ffi::OsString::from_vec(one.value).into())
}

/// Where the data of a work tree lies.
pub(in crate::plan) struct Data {
    /// Its own: `HEAD` and `index`.
    pub directory: PathBuf,
    /// What it shares with other worktrees: objects and settings.
    pub common: PathBuf,
}

/// The data of the work tree whose `.git` this is, where the data itself says that it is.
pub(in crate::plan) fn data_of(dot_git: &Path) -> Option<Data> {
    let metadata = fs::symlink_metadata(dot_git).ok()?;
    if metadata.is_dir() {
        let own = is_git_directory(dot_git);
        return own.then(|| Data { directory: dot_git.to_owned(), common: dot_git.to_owned() });
    }
    // Of a link `named_directory` knows nothing.
    let named = named_directory(dot_git)?;
    match common_directory(&named) {
        Some(common) => is_linked(&named, &common, dot_git).then_some(Data { directory: named, common }),
        None => is_submodule(&named, dot_git.parent()?).then(|| Data { directory: named.clone(), common: named }),
    }
}

/// Whether a repository names its contents by SHA-256.
#[must_use]
pub fn is_sha256(common: &Path) -> bool {
    setting(common, "extensions", "objectformat")
        .is_some_and(|format| format.as_os_str().eq_ignore_ascii_case("sha256"))
}
