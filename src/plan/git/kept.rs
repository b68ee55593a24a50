//! Places that an index must not give to anything else: what git obeys and what is protected, wherever it lies, and work trees. git on
//! the host takes a directory away for a file or a link that an index names in its place, and writes what an index names below it.
//!
//! An entry that was there before the run may stay. Reads the host's files, changes none.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use super::super::build::Builder;
use super::super::heed;
use super::super::links::walk;
use super::super::view::{Rule, View};
use super::index::{DIRECTORY, Hash, SUBMODULE, malformed};
use super::paths::is_refused;
use super::places::place_of;
use super::seen::{Stamp, stamp};
use super::whole::Recognised;
use super::{given, is_sha256, split};
use crate::error::Result;

/// Name, mode and object of entries, by a number of which nobody knows another entry that has it.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    key: RandomState,
    all: HashSet<u64>,
}

impl Entries {
    fn insert(&mut self, name: &[u8], mode: u32, hash: &Hash) {
        self.all.insert(self.number(name, mode, hash));
    }

    fn contains(&self, name: &[u8], mode: u32, hash: &Hash) -> bool {
        self.all.contains(&self.number(name, mode, hash))
    }

    /// Of a submodule another commit may be wanted.
    fn number(&self, name: &[u8], mode: u32, hash: &Hash) -> u64 {
        self.key.hash_one((name, mode, (mode != SUBMODULE).then_some(hash)))
    }
}

/// Why nothing may come to a place, the weakest reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// Read-only as all around it is: what git tracks of it is git's business.
    Other,
    /// Hidden or masked: the command knows nothing of what is there.
    Hidden,
    /// A work tree.
    Tree,
    /// What is obeyed or protected.
    Obeyed,
}

/// All such places of a run: absolute, without links.
#[derive(Debug)]
pub struct Places {
    all: BTreeMap<PathBuf, Why>,
    /// Work trees that were there before the run.
    trees: BTreeSet<PathBuf>,
    /// What somebody has granted all the same.
    granted: BTreeSet<PathBuf>,
}

impl Places {
    /// Those of `rules` and of what is known about repositories, and these work trees.
    pub fn of(rules: &View, recognised: &Recognised, trees: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut all = BTreeMap::new();
        let mut add = |at: &Path, why: Why| {
            let known = all.entry(at.to_owned()).or_insert(why);
            *known = why.max(*known);
        };
        for (at, rule) in rules.entries().filter(|(at, _)| !rules.writable(at)) {
            // Out of a grant, that is: who may only read may still commit what the caller has changed.
            let taken_out = || at.parent().is_some_and(|above| rules.writable(above));
            let protected = *rule == Rule::Protect || matches!(rule, Rule::Read | Rule::Workdir) && taken_out();
            add(
                at,
                if protected {
                    Why::Obeyed
                } else if rule.hides() {
                    Why::Hidden
                } else {
                    Why::Other
                },
            );
        }
        for at in &recognised.obeyed {
            add(at, Why::Obeyed);
        }
        for at in recognised.tops.values().flatten() {
            add(at, Why::Tree);
        }
        for at in trees {
            add(&at, Why::Tree);
        }
        let granted = rules.entries().filter(|(_, rule)| **rule == Rule::Write).map(|(at, _)| at.to_owned()).collect();
        Self { all, trees: recognised.tops.values().flatten().cloned().collect(), granted }
    }

    /// Those below the work tree at `top`, by their names from there.
    #[must_use]
    pub fn below(&self, top: &Path, rules: &View) -> Kept {
        let mut kept = Kept { top: top.to_owned(), outside: !rules.writable(top), ..Kept::default() };
        let name = |at: &Path| Some(at.strip_prefix(top).ok()?.as_os_str().as_bytes().to_vec());
        let inside = self.all.range(top.to_owned()..).take_while(|(at, _)| at.starts_with(top));
        for (at, why) in inside.filter(|(at, _)| at.as_path() != top) {
            let file = !fs::symlink_metadata(at).is_ok_and(|data| data.is_dir());
            let itself = *why != Why::Other || !file;
            kept.hidden.extend(name(at).filter(|_| *why == Why::Hidden && file));
            let above = at.ancestors().skip(usize::from(!itself)).take_while(|above| *above != top);
            kept.at.extend(above.filter_map(name));
            if *why > Why::Hidden {
                // A work tree can be that of a submodule, with whatever is obeyed in there.
                let above = at.ancestors().skip(usize::from(*why == Why::Tree));
                let above = above.take_while(|above| *above != top && !self.trees.contains(*above));
                kept.no_submodule.extend(above.filter_map(name));
            }
            // No entry has a name in a git directory, before or after.
            kept.exact |= *why != Why::Other && name(at).is_some_and(|name| !is_refused(&name, false));
            // What is a work tree no more has files as any other directory.
            let whole = match why {
                Why::Other => false,
                Why::Tree => fs::symlink_metadata(at.join(".git")).is_ok(),
                Why::Hidden | Why::Obeyed => true,
            };
            kept.below.extend(name(at).filter(|_| whole));
        }
        let places = [&kept.at, &kept.below].into_iter().flatten();
        kept.firsts = places.filter_map(|name| name.split(|byte| *byte == b'/').next()).map(<[u8]>::to_vec).collect();
        kept.granted = self.granted.iter().filter(|at| at.as_path() != top).filter_map(|at| name(at)).collect();
        kept
    }
}

/// Such places from the top of a work tree on.
#[derive(Debug, Default)]
pub struct Kept {
    /// They and the directories above them: names that no file and no link has.
    at: HashSet<Vec<u8>>,
    /// What is obeyed, and the directories above that and above work trees: what is checked out of a submodule would come there.
    no_submodule: HashSet<Vec<u8>>,
    /// In which nothing is put.
    below: HashSet<Vec<u8>>,
    /// Below them, what somebody has granted.
    granted: HashSet<Vec<u8>>,
    /// Files among them that are hidden: to the command they are empty.
    pub(super) hidden: HashSet<Vec<u8>>,
    /// The work tree.
    top: PathBuf,
    /// Whether it cannot be written: then no directory of it gives way, but for what is granted.
    outside: bool,
    /// Whether entries may be there since they were there before.
    exact: bool,
    /// How names of places begin.
    firsts: HashSet<Vec<u8>>,
}

impl Kept {
    /// Whether git would give one of them to an entry, or put it in there.
    fn is_about(&self, name: &[u8], mode: u32) -> bool {
        if mode == SUBMODULE {
            let above = name.iter().rposition(|byte| *byte == b'/').map(|end| &name[..end]);
            return self.no_submodule.contains(name) || above.is_some_and(|above| self.decides(above) == Some(false));
        }
        let name = if mode == DIRECTORY { name.strip_suffix(b"/").unwrap_or(name) } else { name };
        if self.at.contains(name) {
            return true;
        }
        self.decides(name) == Some(false)
    }

    /// Whether the last place on the way to a name is granted, or one that is kept.
    fn decides(&self, name: &[u8]) -> Option<bool> {
        let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &name[..end]);
        std::iter::once(name).chain(ends.rev()).find_map(|above| {
            let granted = self.granted.contains(above);
            (granted || self.below.contains(above)).then_some(granted)
        })
    }

    /// Whether an entry could take the place of a directory in a work tree that cannot be written.
    fn may_replace(&self, name: &[u8], mode: u32) -> bool {
        self.outside && ![SUBMODULE, DIRECTORY].contains(&mode) && self.decides(name).is_none()
    }

    /// Whether it matters that an entry was there before.
    fn concerns(&self, name: &[u8], mode: u32) -> bool {
        // Most names have nothing to do with any place.
        let first = name.split(|byte| *byte == b'/').next().unwrap_or_default();
        (self.outside || self.firsts.contains(first)) && self.is_or_replaces(name, mode)
    }

    fn is_or_replaces(&self, name: &[u8], mode: u32) -> bool {
        self.is_about(name, mode) || self.may_replace(name, mode)
    }

    /// Whether an entry is none that may be there.
    pub(super) fn refuses(&self, name: &[u8], mode: u32, hash: &Hash, before: &Entries) -> bool {
        let is_directory = || fs::symlink_metadata(self.place(name)).is_ok_and(|data| data.is_dir());
        let bad = || self.is_about(name, mode) || self.may_replace(name, mode) && is_directory();
        self.concerns(name, mode) && !before.contains(name, mode, hash) && bad()
    }

    /// Where an entry of this name lies.
    pub(super) fn place(&self, name: &[u8]) -> PathBuf {
        self.top.join(OsStr::from_bytes(name))
    }
}

/// Opens an index, whatever has its name now: git follows a link as well.
pub fn open(path: &Path) -> io::Result<File> {
    // To open some devices is to do something.
    if !fs::metadata(path)?.is_file() {
        return Err(malformed());
    }
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Where the objects are that the index in a directory names, and whether by SHA-256. `directory` says what it is, and `looked` is where
/// it is looked at.
#[must_use]
pub fn names_by_sha256(directory: &Path, looked: &Path) -> bool {
    let linked = directory.parent().is_some_and(|above| above.ends_with("worktrees"));
    if linked { is_sha256(&looked.join("../..")) } else { is_sha256(looked) }
}

/// An index that the caller's environment names.
#[derive(Clone, Debug)]
pub struct Given {
    /// Absolute, without links but for itself.
    pub path: PathBuf,
    /// What it was.
    pub stamp: Option<Stamp>,
    /// The git directory that it belongs to.
    pub directory: PathBuf,
}

impl Builder<'_> {
    /// Remembers that git obeys what is at this place, unless somebody has granted it.
    pub(super) fn obeys(&mut self, place: &Path) {
        let plain = place.components().all(|part| part != Component::ParentDir);
        if plain && !self.is_granted(place) {
            self.recognised.obeyed.insert(place.to_owned());
        }
    }

    /// Remembers the work tree of a git directory, or of the data of a worktree.
    pub(super) fn top_of(&mut self, directory: &Path, top: &Path) {
        self.recognised.tops.entry(directory.to_owned()).or_default().insert(place_of(top));
    }

    /// Remembers the entries of indexes that may stay, once all places are known.
    pub(in crate::plan) fn remember_entries(&mut self) -> Result<()> {
        self.given_index();
        let places = Places::of(&self.view, &self.recognised, []);
        let mut entries = BTreeMap::new();
        for (directory, seen) in self.recognised.seen.iter().filter(|(_, seen)| !seen.is_empty()) {
            heed()?;
            let kept = kept_of(directory, None, &places, &self.view, &self.recognised);
            let files = seen.keys().map(|name| directory.join(name));
            entries.insert(directory.clone(), about(files, &kept, directory));
        }
        for given in &self.recognised.given {
            let kept = all_kept(&places, &self.view, &self.recognised);
            entries.insert(given.path.clone(), about([given.path.clone()], &kept, &given.directory));
        }
        entries.retain(|_, entries: &mut Entries| !entries.all.is_empty());
        self.recognised.entries = entries;
        heed()
    }

    /// The index that the environment names, by each name that it can have.
    fn given_index(&mut self) {
        let Some(named) = given::index(self.host) else { return };
        self.recognised.given_tops.extend(given::worktree(self.host).map(|top| place_of(&top)));
        let tops = self.recognised.tops.values().flatten().chain(&self.recognised.given_tops);
        let cwd = self.host.cwd.as_ref().ok();
        let here = |top: &PathBuf| cwd.is_some_and(|cwd| cwd.starts_with(top));
        let known = self.recognised.tops.iter().filter(|(_, tops)| tops.iter().any(here));
        let [own, _] = given::directories(self.host);
        let deepest =
            known.max_by_key(|(_, tops)| tops.iter().filter(|top| here(top)).map(|top| top.as_os_str().len()).max());
        let directory = own.or_else(|| deepest.map(|(directory, _)| directory.clone()));
        let Some(directory) = directory.or_else(|| self.recognised.tops.keys().next().cloned()) else { return };
        let paths: BTreeSet<_> = cwd.into_iter().chain(tops).map(|from| from.join(named)).collect();
        for path in paths {
            let place = path.parent().map(place_of);
            let (Some(place), Some(name)) = (place, path.file_name()) else { continue };
            let ends = [Some(place.join(name)), walk(&path).ok().map(|found| found.end)];
            for path in ends.into_iter().flatten().filter(|path| self.view.writable(path)) {
                let given = Given { stamp: stamp(&path), path, directory: directory.clone() };
                if !self.recognised.given.iter().any(|known| known.path == given.path) {
                    self.recognised.given.push(given);
                }
            }
        }
    }
}

/// What an index in `directory` is compared with; `named` is a work tree that is not known from before the run.
#[must_use]
pub fn kept_of(
    directory: &Path,
    named: Option<PathBuf>,
    places: &Places,
    rules: &View,
    recognised: &Recognised,
) -> Vec<Kept> {
    let tops = recognised.tops.get(directory).into_iter().flatten().chain(&recognised.given_tops).cloned();
    let tops: BTreeSet<_> = tops.chain(named).collect();
    tops.iter().map(|top| places.below(top, rules)).collect()
}

/// The same for an index of any work tree.
#[must_use]
pub fn all_kept(places: &Places, rules: &View, recognised: &Recognised) -> Vec<Kept> {
    let tops: BTreeSet<_> = recognised.tops.values().flatten().chain(&recognised.given_tops).collect();
    tops.into_iter().map(|top| places.below(top, rules)).collect()
}

/// Entries in these files for places that are kept.
fn about(files: impl IntoIterator<Item = PathBuf>, kept: &[Kept], directory: &Path) -> Entries {
    let mut entries = Entries::default();
    if !kept.iter().any(|kept| kept.exact || kept.outside) {
        return entries;
    }
    let (sha256, bases) = (names_by_sha256(directory, directory), directory);
    let mut read = BTreeSet::new();
    for file in files {
        // Names of one file have one content.
        if stamp(&file).is_some_and(|stamp| !read.insert(stamp.place())) {
            continue;
        }
        // What cannot be read has none that may stay.
        let _read = open(&file).and_then(|file| {
            split::each(&file, sha256, bases, &mut |name, mode, hash| {
                if kept.iter().any(|kept| kept.concerns(name, mode)) {
                    entries.insert(name, mode, hash);
                }
            })
        });
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::super::index::FILE;
    use super::*;

    const LINK: u32 = 0o12_0000;

    fn kept() -> Kept {
        let names = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
        Kept {
            at: names(&["a", "a/hooks", "sub"]),
            no_submodule: names(&["a", "a/hooks"]),
            below: names(&["a/hooks", "sub"]),
            granted: names(&["a/hooks/mine"]),
            exact: true,
            firsts: names(&["a", "sub"]),
            ..Kept::default()
        }
    }

    #[test]
    fn entries_at_above_and_below_a_place() {
        let is_about = |name: &str, mode| kept().is_about(name.as_bytes(), mode);
        for (name, mode) in [
            ("a", LINK),
            ("a", FILE),
            ("a/", DIRECTORY),
            ("a/hooks", LINK),
            ("a/hooks/", DIRECTORY),
            ("a/hooks/x", FILE),
            ("a/hooks/d/x", FILE),
            ("a/hooks/d/", DIRECTORY),
            ("sub", FILE),
            ("sub/x", FILE),
            ("sub/x", SUBMODULE),
            ("a", SUBMODULE),
            ("a/hooks", SUBMODULE),
            ("a/hooks/d", SUBMODULE),
        ] {
            assert!(is_about(name, mode), "{name} {mode:o}");
        }
        for (name, mode) in [
            ("a/x", FILE),
            ("a/hooks2", FILE),
            ("ab", LINK),
            ("sub", SUBMODULE),
            ("b", SUBMODULE),
            ("a/hooks/mine", FILE),
            ("a/hooks/mine/x", FILE),
            ("b/", DIRECTORY),
        ] {
            assert!(!is_about(name, mode), "{name} {mode:o}");
        }
    }

    #[test]
    fn what_was_there_before_may_stay_as_it_was() {
        let (one, other) = (Hash::Sha1([1; 20]), Hash::Sha1([2; 20]));
        let mut before = Entries::default();
        before.insert(b"a/hooks/x", FILE, &one);
        let refuses = |name: &str, mode, hash| kept().refuses(name.as_bytes(), mode, hash, &before);
        assert!(!refuses("a/hooks/x", FILE, &one));
        assert!(refuses("a/hooks/x", FILE, &other));
        assert!(refuses("a/hooks/x", LINK, &one));
        assert!(refuses("a/hooks/y", FILE, &one));
        assert!(!refuses("b", LINK, &one));
        // What is checked out into a submodule is another matter, but not that there is one.
        assert!(refuses("a", SUBMODULE, &one));
        before.insert(b"a", SUBMODULE, &one);
        let refuses = |name: &str, mode, hash| kept().refuses(name.as_bytes(), mode, hash, &before);
        assert!(!refuses("a", SUBMODULE, &other) && refuses("a", LINK, &one));
    }

    #[test]
    fn no_directory_gives_way_in_a_work_tree_that_cannot_be_written() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("d/mine/e")).unwrap();
        fs::write(top.path().join("f"), "").unwrap();
        let granted = [b"d/mine".to_vec()].into();
        let kept = Kept { top: top.path().to_owned(), outside: true, granted, ..Kept::default() };
        let hash = Hash::Sha1([0; 20]);
        let refuses = |name: &str, mode| kept.refuses(name.as_bytes(), mode, &hash, &Entries::default());
        assert!(refuses("d", FILE) && refuses("d", LINK));
        assert!(!refuses("f", FILE) && !refuses("d/x", FILE) && !refuses("d", SUBMODULE) && !refuses("d/mine/e", LINK));
        let mut before = Entries::default();
        before.insert(b"d", FILE, &hash);
        assert!(!kept.refuses(b"d", FILE, &hash, &before));
    }
}
