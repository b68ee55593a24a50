//! What `git worktree add` and `git submodule update` leave in new data of work trees, told from what makes git on the host run
//! something, or write elsewhere. Reads files, changes none.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::super::closed;
use super::settings::{Setting, parse};
use super::{COMMON, looks_like_git_directory, read, setting};

/// Settings in new data: sections, what a name between them and the key does not change, and keys.
const SETTINGS: &[(&str, &[&str])] = &[
    ("branch", &["merge", "rebase", "remote"]),
    (
        "core",
        &[
            "bare",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "precomposeunicode",
            "repositoryformatversion",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "symlinks",
            "worktree",
        ],
    ),
    ("extensions", &["objectformat", "refstorage", "worktreeconfig"]),
    ("index", &["sparse"]),
    ("lfs", &["repositoryformatversion"]),
    ("remote", &["fetch", "pushurl", "tagopt", "url"]),
    ("submodule", &["active", "url"]),
    ("user", &["email", "name"]),
];

/// What the data of a submodule, that nobody knew before the run, has of what git obeys: names, each with a reason. `looked` is where
/// the `directory` is looked at, and `fits` whether a place is its work tree, as git makes one.
pub fn in_module(directory: &Path, looked: &Path, fits: &dyn Fn(&Path) -> bool) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if !looks_like_git_directory(looked) {
        return found;
    }
    for name in ["config", "config.worktree"] {
        found.extend(settings(directory, &looked.join(name), fits).map(|why| (name, why)));
    }
    if has_hooks(&looked.join("hooks")) {
        found.push(("hooks", "has hooks that git on the host would run".into()));
    }
    if !matches!(closed::look(&looked.join(COMMON)), Ok(None)) {
        found.push((COMMON, "sends git on the host to another place for its settings and hooks".into()));
    }
    found
}

/// Why the data of a worktree that nobody knew before the run is not what git makes.
pub fn in_worktree(directory: &Path, looked: &Path, fits: &dyn Fn(&Path) -> bool) -> Option<String> {
    let text = |name: &str| read(&looked.join(name)).ok().flatten().unwrap_or_default();
    if text(COMMON).trim_ascii_end() != b"../.." {
        return Some("sends git on the host to another place for its settings and hooks".into());
    }
    let place = text("gitdir");
    let named = Path::new(OsStr::from_bytes(place.trim_ascii_end()));
    if named.is_relative() && !has_relative_worktrees(&looked.join("../..")) {
        return Some(format!("names '{}', which not every git reads from there", named.display()));
    }
    let place = directory.join(named);
    if place.file_name() != Some(OsStr::new(".git")) || !place.parent().is_some_and(fits) {
        return Some(format!("names '{}', where git on the host would write", place.display()));
    }
    settings(directory, &looked.join("config.worktree"), fits).map(|why| format!("has settings and {why}"))
}

/// Whether only a git that reads relative names of work trees from the data of each takes this for a repository: the first of them is
/// 2.48, and older ones read them from where they are started.
fn has_relative_worktrees(common: &Path) -> bool {
    let says = |section, key, values: &[&str]| {
        setting(common, section, key)
            .is_some_and(|value| values.iter().any(|one| value.as_os_str().eq_ignore_ascii_case(one)))
    };
    says("core", "repositoryformatversion", &["1"])
        && says("extensions", "relativeworktrees", &["true", "yes", "on", "1"])
}

/// The first setting in `file` that is none of the above.
fn settings(directory: &Path, file: &Path, fits: &dyn Fn(&Path) -> bool) -> Option<String> {
    let text = match closed::there(read(file)) {
        Ok(text) => text.flatten()?,
        Err(_) => return Some("cannot be read".into()),
    };
    let bad = |one: &Setting| {
        let known = SETTINGS.iter().any(|(section, keys)| one.section == *section && keys.contains(&one.key.as_str()));
        !known || one.key == "worktree" && !fits(&directory.join(OsStr::from_bytes(&one.value)))
    };
    let one = parse(&text).into_iter().find(bad)?;
    if (one.section.as_str(), one.key.as_str()) == ("core", "worktree") {
        return Some("sets 'core.worktree' to what is not its work tree: git on the host would write there".into());
    }
    Some(format!("sets '{}.{}', which git on the host would obey", one.section, one.key))
}

/// git makes examples only.
fn has_hooks(hooks: &Path) -> bool {
    // What cannot be listed can be run.
    let Ok(entries) = closed::there(fs::read_dir(hooks)) else { return true };
    entries.into_iter().flatten().flatten().any(|entry| {
        let directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        !directory && !entry.file_name().as_bytes().ends_with(b".sample")
    })
}
