//! The walk of the scan: breadth first, so that a limit leaves out what lies deepest.
//!
//! Reads directories and what git says of hidden names in them, follows no link and changes nothing.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, FileType};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::base;
use super::worktrees::{Verdict, Worktrees};
use super::{Ground, is_dotted};
use crate::policy::hidden::Names;

/// Directories of many entries and few secrets, looked at last so that a limit hits them first.
const SLOW: &[&str] = &[
    ".build",
    ".cache",
    ".gradle",
    ".m2",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".pnpm-store",
    ".stack-work",
    ".terraform",
    ".tox",
    ".venv",
    ".yarn",
    "Pods",
    "bower_components",
    "node_modules",
    "site-packages",
    "target",
    "vendor",
    "venv",
];

/// Shown as it is: git needs all of it, and nothing in it is hidden by a dot.
pub(super) const WHOLE: &str = ".git";

/// In a directory with such a file lies what can be made again, as <https://bford.info/cachedir/> says.
const CACHE: &str = "CACHEDIR.TAG";

/// A directory still to be looked at.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// The directory above, as an index of [`Search::entered`].
    above: Option<usize>,
    pub(super) slow: bool,
    /// How many directories it lies below a name that begins with a dot; `None` when that is too far for a secret, or there is
    /// no such name.
    below_dot: Option<usize>,
    /// The work tree in which it lies.
    tree: Option<usize>,
    /// Whether it would be hidden but for files in it that git has.
    entered: bool,
}

impl Place {
    fn root(path: &Path, tree: Option<usize>) -> Self {
        let below_dot = path.iter().rev().take(base::DEEPEST_SECRET).position(is_dotted);
        Self { path: path.to_owned(), above: None, slow: false, below_dot, tree, entered: false }
    }
}

/// A scan under way.
pub(super) struct Search<'a> {
    ground: &'a Ground,
    names: &'a Names,
    recursive: bool,
    /// Whether only well-known secrets are looked for.
    secrets_only: bool,
    /// Entries that may still be looked at.
    left: u64,
    quick: VecDeque<Place>,
    slow: VecDeque<Place>,
    /// Device and inode of each directory so far, and of which it is an entry.
    entered: Vec<(u64, u64, Option<usize>)>,
    pub(super) found: Vec<PathBuf>,
    pub(super) links: Vec<PathBuf>,
    pub(super) repositories: Vec<PathBuf>,
    pub(super) worktrees: Worktrees,
}

/// An entry that matters.
enum What {
    Hide,
    Link,
    Repository,
    Enter { slow: bool },
}

impl<'a> Search<'a> {
    pub(super) fn new(ground: &'a Ground, names: &'a Names, recursive: bool, left: u64) -> Self {
        let whole = |path: &&PathBuf| path.file_name().is_some_and(|name| name == WHOLE);
        let mut worktrees = Worktrees::default();
        let mut root = |path: &PathBuf| Place::root(path, ground.tops.get(path).map(|top| worktrees.at(top)));
        let quick = ground.roots.iter().filter(|path| !whole(path)).map(&mut root).collect();
        Self {
            ground,
            names,
            recursive,
            secrets_only: false,
            left,
            quick,
            slow: VecDeque::new(),
            entered: Vec::new(),
            found: Vec::new(),
            links: Vec::new(),
            repositories: ground.roots.clone(),
            worktrees,
        }
    }

    /// Looks at the rest of the host, as far as `left` entries. Returns what that leaves unfinished, as [`Search::run`].
    pub(super) fn look_for_secrets(&mut self, left: u64) -> Option<Vec<Place>> {
        self.left = left;
        self.secrets_only = true;
        self.recursive = true;
        self.quick = self.ground.rest.iter().map(|path| Place::root(path, None)).collect();
        self.slow.clear();
        self.run()
    }

    /// Returns the directories that the limit left unfinished, if it did.
    pub(super) fn run(&mut self) -> Option<Vec<Place>> {
        while let Some(place) = self.quick.pop_front().or_else(|| self.slow.pop_front()) {
            let Some(number) = self.enter(&place) else { continue };
            if !self.look(&place, number) {
                let queued = self.quick.drain(..).chain(self.slow.drain(..));
                return Some(std::iter::once(place).chain(queued).collect());
            }
        }
        None
    }

    /// A number for the directory; `None` when it is gone, no directory, or one that holds itself.
    ///
    /// One directory can have several paths, by mounts, and hidden names below each: only a loop is left out.
    fn enter(&mut self, place: &Place) -> Option<usize> {
        let data = fs::symlink_metadata(&place.path).ok().filter(fs::Metadata::is_dir)?;
        let mut above = place.above;
        while let Some((device, inode, next)) = above.and_then(|number| self.entered.get(number)) {
            if (*device, *inode) == (data.dev(), data.ino()) {
                return None;
            }
            above = *next;
        }
        self.entered.push((data.dev(), data.ino(), place.above));
        Some(self.entered.len() - 1)
    }

    /// Looks at the entries of a directory. `false` when there are more than may be looked at.
    fn look(&mut self, place: &Place, number: usize) -> bool {
        let entries = match fs::read_dir(&place.path) {
            Ok(entries) => entries,
            // Names that we cannot list could still be opened by whoever knows them, or listed after a chmod: all are
            // hidden, with their directory. The place that was granted itself cannot be; it counts as unfinished.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                if self.secrets_only {
                    return true;
                }
                if place.above.is_some() {
                    self.found.push(place.path.clone());
                }
                return place.above.is_some();
            }
            // Gone.
            Err(_) => return true,
        };
        let mut names = Vec::new();
        let mut finished = true;
        let mut cache = false;
        // Without a work tree a repository's data has a name like any other; git obeys it all the same.
        let mut bare = false;
        for entry in entries {
            let Ok(entry) = entry else { break };
            if self.left == 0 {
                finished = false;
                break;
            }
            self.left -= 1;
            let name = entry.file_name();
            cache |= name == CACHE;
            bare |= name == "HEAD" || name == "config";
            // The kind comes with the name; gone is as good as not there.
            if let Ok(kind) = entry.file_type()
                && let Some(what) = self.what(place, &name, kind)
            {
                names.push((name, what));
            }
        }
        if bare && place.above.is_some() {
            self.repositories.push(place.path.clone());
        }
        names.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut tree = place.tree;
        if self.names.default && !self.secrets_only && names.iter().any(|(_, what)| matches!(what, What::Repository)) {
            tree = Some(self.worktrees.at(&place.path));
        }
        for (name, what) in names {
            // What is often committed is as secret as any hidden name: git's word counts.
            let secret =
                matches!(what, What::Hide) && self.secret(place, &name).is_some_and(|secret| !secret.committed);
            let dotted = is_dotted(&name);
            let path = place.path.join(name);
            if self.ground.decided.contains(path.as_os_str()) {
                continue;
            }
            // git's word counts where no list of names is given that alone counts.
            let verdict = match (&what, tree) {
                (What::Hide, Some(tree)) => self.worktrees.verdict(tree, &path, secret, place.entered),
                _ => Verdict::Hide,
            };
            match what {
                What::Hide if verdict == Verdict::Hide => self.found.push(path),
                What::Hide if verdict == Verdict::Show => {}
                What::Link => self.links.push(path),
                What::Repository => self.repositories.push(path),
                What::Enter { .. } if self.ground.closed.contains(path.as_os_str()) => {}
                What::Hide | What::Enter { .. } => {
                    let entered = matches!(what, What::Hide);
                    let slow = matches!(what, What::Enter { slow: true }) || place.slow || cache;
                    let queue = if slow { &mut self.slow } else { &mut self.quick };
                    let deeper = place.below_dot.map(|depth| depth + 1).filter(|depth| *depth < base::DEEPEST_SECRET);
                    let below_dot = if dotted { Some(0) } else { deeper };
                    queue.push_back(Place { path, above: Some(number), slow, below_dot, tree, entered });
                }
            }
        }
        finished
    }

    fn what(&self, place: &Place, name: &OsStr, kind: FileType) -> Option<What> {
        let dotted = is_dotted(name);
        let hidden = if place.entered {
            !self.names.listed.contains(name)
        } else if self.secrets_only {
            (dotted || place.below_dot.is_some()) && self.secret(place, name).is_some()
        } else {
            // What is not listed is hidden; what lies below something listed can be a secret by its place.
            (dotted && !self.names.contains(name)) || (place.below_dot.is_some() && self.secret(place, name).is_some())
        };
        if hidden {
            return Some(if kind.is_symlink() { What::Link } else { What::Hide });
        }
        if dotted && name == WHOLE {
            return Some(What::Repository);
        }
        let enter = self.recursive && kind.is_dir();
        enter.then(|| What::Enter { slow: SLOW.iter().any(|slow| name == *slow) })
    }

    /// The secret that goes by this name here, unless somebody listed it.
    fn secret(&self, place: &Place, name: &OsStr) -> Option<base::Secret> {
        base::secret(&place.path, name).filter(|_| !self.names.listed.contains(name))
    }
}
