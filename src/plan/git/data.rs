//! Whose data a worktree or submodule has: the word of the data counts, not that of the `.git` that names it.
//!
//! Reads the host's files, changes none.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::super::links::walk;
use super::seen::{Stamp, stamp};
use super::{COMMON, GITDIR, is_git_directory, path_in, read, settings};

/// Settings of as many bytes are kept in mind.
const LONG: usize = 64 << 10;

thread_local! {
    /// What the last long file of settings says: those of a repository are asked for with each of its worktrees.
    static LAST: RefCell<Option<Said>> = const { RefCell::new(None) };
}

/// Values by section and key, and the file that says them.
type Said = (Stamp, HashMap<String, Vec<u8>>);

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
    let file = directory.join("config");
    let name = format!("{section}.{key}");
    let path = |value: Vec<u8>| std::ffi::OsString::from_vec(value).into();
    let stamp = stamp(&file)?;
    let known = LAST.with_borrow(|last| {
        let (_, values) = last.as_ref().filter(|(known, _)| *known == stamp)?;
        Some(values.get(&name).cloned())
    });
    if let Some(value) = known {
        return value.map(path);
    }
    let text = read(&file).ok()??;
    let plain = settings::parse(&text).into_iter().filter(|one| one.below.is_empty());
    let mut values: HashMap<_, _> = plain.map(|one| (format!("{}.{}", one.section, one.key), one.value)).collect();
    if text.len() < LONG || !stamp.is_settled() {
        return values.remove(&name).map(path);
    }
    let value = values.get(&name).cloned();
    LAST.set(Some((stamp, values)));
    value.map(path)
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
