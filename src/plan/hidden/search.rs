//! The walk of the scan: breadth first, so that a limit leaves out what lies deepest; over the rest of a host by shares, so that no
//! directory uses up what others need.
//!
//! Reads directories and what git says of hidden names in them, follows no link and changes nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::{base, closed, listing};
use super::worktrees::{Verdict, Worktrees};
use super::{Ground, is_dotted};
use crate::policy::hidden::Names;
use crate::sys::signals::waiting;

/// Directories of many entries and few secrets, looked at last so that a limit hits them first. A command can make such names: they
/// decide about nothing but the order.
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

/// What git needs is shown as it is. Entered all the same, as a name alone makes no repository: a command can give it to any directory.
pub(super) const WHOLE: &str = ".git";

/// Directories with longer paths are not entered, in bytes: a mount on a name in them, below a root of bubblewrap's own, has to
/// stay below `PATH_MAX`. Whoever goes there step by step meets no such limit.
const LONGEST: usize = 3800;

/// The share of the whole rest of a host.
const ALL: u128 = u128::MAX >> 1;

/// So much less is the share of a directory of [`SLOW`]. Not none: who fills a directory would keep these from being searched at all.
const SLOWER: u128 = 1 << 10;

/// So many entries of a directory are looked at before others with as large a share have their turn; twice as many each time after.
const TURN: u64 = 1 << 8;

/// A directory still to be looked at.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
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
    /// Whether it is a `.git` or lies in one.
    git: bool,
    /// Whether of names only well-known secrets are hidden here.
    narrow: bool,
    /// What part of the search it may use; counts in the rest of a host only. An entry gets what its directory has, divided by the
    /// number of all entries: whoever makes many makes each of them wait, and those of nobody else.
    share: u128,
    /// How many of its entries may be looked at in this turn.
    turn: u64,
}

impl Place {
    fn root(path: &Path, tree: Option<usize>) -> Self {
        let below_dot = path.iter().rev().take(base::DEEPEST_SECRET).position(is_dotted);
        let git = path.file_name().is_some_and(|name| name == WHOLE);
        Self {
            path: path.to_owned(),
            above: None,
            slow: false,
            below_dot,
            tree,
            entered: false,
            git,
            narrow: false,
            share: ALL,
            turn: TURN,
        }
    }

    /// The same, where only well-known secrets are looked for.
    fn narrow(path: &Path, tree: Option<usize>) -> Self {
        Self { narrow: true, ..Self::root(path, tree) }
    }

    /// A directory in this one, which has that number and of whose entries `seen` have been looked at.
    fn inner(&self, path: PathBuf, number: usize, seen: u64) -> Self {
        Self {
            path,
            above: Some(number),
            slow: self.slow,
            below_dot: None,
            tree: None,
            entered: false,
            git: self.git,
            narrow: self.narrow,
            share: self.share / (1 + u128::from(seen)),
            turn: TURN,
        }
    }

    /// The same directory, looked at late.
    fn later(self) -> Self {
        let share = self.share / if self.slow { 1 } else { SLOWER };
        Self { slow: true, share, ..self }
    }
}

/// How far a look at a directory got.
enum Looked {
    /// To its end.
    Through,
    /// To the end of its turn.
    Waits,
    /// To the limit.
    Ended,
}

/// A scan under way.
pub(super) struct Search<'a> {
    ground: &'a Ground,
    names: &'a Names,
    recursive: bool,
    /// Whether it is the rest of the host that is looked at: by a grant of `/`, of nothing in particular.
    rest: bool,
    /// Entries that may still be looked at.
    left: u64,
    quick: VecDeque<Place>,
    slow: VecDeque<Place>,
    /// Directories of toolchains, for later.
    tools: VecDeque<Place>,
    /// The same for the rest of a host: by share, then in the order in which they were found.
    shared: BTreeMap<(Reverse<u128>, usize), Place>,
    /// How many were put there.
    queued: usize,
    /// Device and inode of each directory so far, and of which it is an entry.
    entered: Vec<(u64, u64, Option<usize>)>,
    /// What to hide, and whether that is for no other reason than that nobody listed the name.
    pub(super) found: Vec<(PathBuf, bool)>,
    /// Roots that cannot be searched, and why: what was granted cannot be hidden.
    pub(super) blocked: Vec<(PathBuf, io::Error)>,
    pub(super) links: Vec<PathBuf>,
    pub(super) repositories: Vec<PathBuf>,
    pub(super) worktrees: Worktrees,
}

/// An entry that matters.
enum What {
    Hide,
    Link,
    Repository { directory: bool },
    Enter { slow: bool },
}

impl<'a> Search<'a> {
    pub(super) fn new(ground: &'a Ground, names: &'a Names, recursive: bool, left: u64) -> Self {
        let mut worktrees = Worktrees::default();
        let mut tree = |path: &PathBuf| ground.tops.get(path).map(|top| worktrees.at(top));
        let quick = ground.roots.iter().map(|path| Place::root(path, tree(path))).collect();
        let slow = ground.narrow.iter().map(|path| Place { slow: true, ..Place::narrow(path, tree(path)) }).collect();
        let tools = ground.tools.iter().map(|path| Place::narrow(path, tree(path))).collect();
        Self {
            ground,
            names,
            recursive,
            rest: false,
            left,
            quick,
            slow,
            tools,
            shared: BTreeMap::new(),
            queued: 0,
            entered: Vec::new(),
            found: Vec::new(),
            blocked: Vec::new(),
            links: Vec::new(),
            repositories: ground.roots.iter().chain(&ground.narrow).chain(&ground.tools).cloned().collect(),
            worktrees,
        }
    }

    /// Looks at directories of toolchains, as far as `left` entries. Returns what that leaves unfinished, as [`Search::run`].
    pub(super) fn look_at_tools(&mut self, left: u64) -> Option<Vec<Place>> {
        self.left = left;
        self.rest = false;
        self.quick = std::mem::take(&mut self.tools);
        self.run()
    }

    /// Looks at the rest of the host, as far as `left` entries. Returns what that leaves unfinished, as [`Search::run`].
    pub(super) fn look_for_secrets(&mut self, left: u64) -> Option<Vec<Place>> {
        self.left = left;
        self.rest = true;
        self.recursive = true;
        self.quick.clear();
        self.slow.clear();
        let roots = 1 + self.ground.rest.len() as u128;
        for path in &self.ground.rest {
            self.queue(Place { share: ALL / roots, ..Place::narrow(path, None) });
        }
        self.run()
    }

    /// Returns the directories that the limit left unfinished, if it did.
    pub(super) fn run(&mut self) -> Option<Vec<Place>> {
        while let Some(place) = self.next() {
            // Whoever has started the search asks for the same.
            if waiting().is_some() {
                return None;
            }
            let Some(number) = self.enter(&place) else { continue };
            match self.look(&place, number) {
                Looked::Through => {}
                Looked::Waits => {
                    // From its beginning once more: nothing is held open, and that costs less than it has cost by then.
                    let share = place.share / u128::from(place.turn);
                    let key = self.key(share);
                    self.shared.insert(key, Place { turn: place.turn * 2, ..place });
                }
                Looked::Ended => {
                    let shared = std::mem::take(&mut self.shared).into_values();
                    let queued = self.quick.drain(..).chain(self.slow.drain(..)).chain(shared);
                    return Some(std::iter::once(place).chain(queued).collect());
                }
            }
        }
        None
    }

    fn next(&mut self) -> Option<Place> {
        let first = self.quick.pop_front().or_else(|| self.slow.pop_front());
        first.or_else(|| self.shared.pop_first().map(|(_, place)| place))
    }

    fn queue(&mut self, place: Place) {
        if self.rest {
            let key = self.key(place.share);
            self.shared.insert(key, place);
        } else if place.slow {
            self.slow.push_back(place);
        } else {
            self.quick.push_back(place);
        }
    }

    fn queue_or_defer(&mut self, place: Place) {
        if self.ground.tools_below.contains(place.path.as_os_str()) {
            self.tools.push_back(Place { narrow: true, ..place.later() });
        } else {
            self.queue(place);
        }
    }

    fn key(&mut self, share: u128) -> (Reverse<u128>, usize) {
        self.queued += 1;
        (Reverse(share), self.queued)
    }

    /// A number for the directory; `None` when it is gone, no directory, closed, or one that holds itself.
    ///
    /// One directory can have several paths, by mounts, and hidden names below each: only a loop is left out.
    fn enter(&mut self, place: &Place) -> Option<usize> {
        let data = match closed::look(&place.path) {
            Ok(data) => data.filter(fs::Metadata::is_dir)?,
            Err(error) => {
                self.cover(place, error);
                return None;
            }
        };
        let mut above = place.above;
        while let Some((device, inode, next)) = above.and_then(|number| self.entered.get(number)) {
            if (*device, *inode) == (data.dev(), data.ino()) {
                return None;
            }
            above = *next;
        }
        let long = place.path.as_os_str().len() > LONGEST;
        let entered = if long { Err(io::ErrorKind::InvalidFilename.into()) } else { closed::enter(&place.path, &data) };
        if let Err(error) = entered {
            let (root, ours) = (nix::unistd::geteuid().is_root(), closed::is_ours(&data));
            // What is another's nobody inside can open. There root would see names that cannot be hidden one by one.
            let skipped = self.rest && !root;
            let granted = place.above.is_none() && !self.rest && root;
            if long || ours || !(skipped || granted) {
                self.cover(place, error);
            }
            if long || ours || !granted {
                return None;
            }
        }
        self.entered.push((data.dev(), data.ino(), place.above));
        Some(self.entered.len() - 1)
    }

    /// Hides a directory in which no names can be looked for: they could still be opened by whoever knows them, or listed after a
    /// chmod. One that cannot be a mount point itself is hidden by the next above. Whether that could be done.
    fn cover(&mut self, place: &Place, error: io::Error) -> bool {
        let mut path = place.path.as_path();
        let mut above = place.above;
        loop {
            let can_be_hidden = if above.is_none() {
                self.rest && !self.ground.decided.contains(path.as_os_str())
            } else {
                path.as_os_str().len() <= LONGEST + 1 + 255 && closed::look(path).is_ok()
            };
            if can_be_hidden {
                self.found.push((path.to_owned(), false));
                return true;
            }
            match (above.and_then(|number| self.entered.get(number)), path.parent()) {
                (Some((.., next)), Some(parent)) => (above, path) = (*next, parent),
                _ => break,
            }
        }
        if !self.rest {
            self.blocked.push((path.to_owned(), error));
        }
        false
    }

    /// Looks at the entries of a directory.
    fn look(&mut self, place: &Place, number: usize) -> Looked {
        let entries = match closed::there(fs::read_dir(&place.path)) {
            Ok(entries) => entries.into_iter().flatten(),
            // Of what is another's only well-known names could be opened.
            Err(_)
                if self.rest
                    && !closed::look(&place.path).is_ok_and(|data| data.as_ref().is_some_and(closed::is_ours)) =>
            {
                return Looked::Through;
            }
            Err(error) => {
                self.cover(place, error);
                return Looked::Through;
            }
        };
        let (mut names, mut seen) = (Vec::new(), 0);
        let mut looked = Looked::Through;
        // Without a work tree a repository's data has a name like any other; git obeys it all the same.
        let mut bare = false;
        let is_etc = self.rest && place.path.file_name().is_some_and(|name| name == "etc");
        let mut etc = Etc::default();
        for entry in entries {
            if self.left == 0 {
                looked = Looked::Ended;
                break;
            }
            if self.rest && seen == place.turn {
                looked = Looked::Waits;
                break;
            }
            self.left -= 1;
            seen += 1;
            // The kind comes with the name, mostly.
            let entry = closed::there(entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?))));
            match entry {
                Ok(Some((name, kind))) => {
                    bare |= name == "HEAD" || name == "config" || name == "objects";
                    if is_etc {
                        etc.see(&name);
                    }
                    if let Some(what) = self.what(place, &name, kind) {
                        names.push((name, what));
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    if self.cover(place, error) {
                        return Looked::Through;
                    }
                    break;
                }
            }
        }
        self.bare(place, bare);
        if matches!(looked, Looked::Through) {
            names.extend(self.unlisted(place));
        }
        names.extend(etc.hashes().map(|name| (name.into(), What::Hide)));
        // A file system may list what it was asked for.
        names.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        names.dedup_by(|(one, _), (other, _)| one == other);
        let mut tree = place.tree;
        if !self.names.counts_alone()
            && !self.rest
            && names.iter().any(|(_, what)| matches!(what, What::Repository { .. }))
        {
            tree = Some(self.worktrees.at(&place.path));
        }
        for (name, what) in names {
            // What is often committed is as secret as any hidden name: git's word counts.
            let known = if matches!(what, What::Hide) { self.secret(place, &name) } else { None };
            let secret = known.is_some_and(|secret| !secret.committed);
            let dotted = is_dotted(&name);
            let path = place.path.join(name);
            if self.ground.decided.contains(path.as_os_str()) {
                continue;
            }
            // git's word counts where no list of names is given that alone counts.
            let verdict = match (&what, tree) {
                (What::Hide, Some(tree)) if !place.git => self.worktrees.verdict(tree, &path, secret, place.entered),
                _ => Verdict::Hide,
            };
            match what {
                What::Hide if verdict == Verdict::Hide => self.found.push((path, dotted && known.is_none())),
                What::Hide if verdict == Verdict::Show => {}
                What::Link => self.links.push(path),
                What::Repository { directory } => {
                    self.repositories.push(path.clone());
                    if directory && self.recursive && !matches!(looked, Looked::Waits) {
                        let inner = place.inner(path, number, seen).later();
                        self.queue(Place { below_dot: Some(0), git: true, ..inner });
                    }
                }
                What::Enter { .. } if self.ground.closed.contains(path.as_os_str()) => {}
                // It has a share of its own.
                What::Enter { .. } if self.rest && self.ground.rest.contains(&path) => {}
                // Once more when its turn comes again.
                What::Hide | What::Enter { .. } if matches!(looked, Looked::Waits) => {}
                What::Hide | What::Enter { .. } => {
                    let entered = matches!(what, What::Hide);
                    let deeper = place.below_dot.map(|depth| depth + 1).filter(|depth| *depth < base::DEEPEST_SECRET);
                    let below_dot = if dotted { Some(0) } else { deeper };
                    let inner = Place { below_dot, tree, entered, ..place.inner(path, number, seen) };
                    let slow = matches!(what, What::Enter { slow: true });
                    self.queue_or_defer(if slow { inner.later() } else { inner });
                }
            }
        }
        looked
    }

    /// Notes a directory that may be the data of a repository without a work tree.
    fn bare(&mut self, place: &Place, bare: bool) {
        if bare && place.above.is_some() && !place.git {
            self.repositories.push(place.path.clone());
        }
    }

    /// What a file system has of names that it does not list.
    fn unlisted(&self, place: &Place) -> impl Iterator<Item = (OsString, What)> {
        listing::unlisted(&place.path)
            .into_iter()
            .filter_map(|(name, kind)| self.what(place, &name, kind).map(|what| (name, what)))
    }

    fn what(&self, place: &Place, name: &OsStr, kind: FileType) -> Option<What> {
        let dotted = is_dotted(name);
        let hidden = if place.entered {
            !self.names.listed.contains(name)
        } else if place.narrow {
            (dotted || place.below_dot.is_some()) && self.secret(place, name).is_some()
        } else {
            // What is not shown is hidden; what lies below something shown can be a secret by its place, and where nobody vouches for a
            // name by its own.
            let suspect = place.below_dot.is_some() || (dotted && !self.names.vouches_for(name));
            (dotted && !self.names.contains(name)) || (suspect && self.secret(place, name).is_some())
        };
        if hidden {
            return Some(if kind.is_symlink() { What::Link } else { What::Hide });
        }
        if dotted && name == WHOLE {
            return Some(What::Repository { directory: kind.is_dir() });
        }
        let enter = self.recursive && kind.is_dir();
        enter.then(|| What::Enter { slow: SLOW.iter().any(|slow| name == *slow) })
    }

    /// The secret that goes by this name here, unless somebody listed it.
    fn secret(&self, place: &Place, name: &OsStr) -> Option<base::Secret> {
        base::secret(&place.path, name).filter(|_| !self.names.listed.contains(name))
    }
}

/// Names in a directory `etc` that make it one of a system: of a container, a chroot.
#[derive(Default)]
struct Etc {
    passwd: bool,
    /// Which of [`HASHES`] are there.
    there: [bool; HASHES.len()],
}

/// Password hashes, beside `passwd`.
const HASHES: [&str; 4] = ["shadow", "shadow-", "gshadow", "gshadow-"];

impl Etc {
    fn see(&mut self, name: &OsStr) {
        self.passwd |= name == "passwd";
        for (known, there) in HASHES.iter().zip(&mut self.there) {
            *there |= name == *known;
        }
    }

    fn hashes(self) -> impl Iterator<Item = &'static str> {
        HASHES.into_iter().zip(self.there).filter(move |(_, there)| self.passwd && *there).map(|(name, _)| name)
    }
}
