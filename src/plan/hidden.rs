//! The scan for names that begin with a dot, the only walk through a file system that this program makes.
//!
//! Reads directories, follows no link into one and changes nothing. It says what to hide; the view hides it. What comes into
//! being after the scan is not hidden in this run.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::base;
use super::links::walk;
use super::view::{FileKind, View};
use crate::error::{Error, Kind, Result};
use crate::policy::Hidden;
use crate::policy::hidden::{Names, Overflow};

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
const WHOLE: &str = ".git";

/// How far the time stamps of files lag behind the clock, at most.
const TICK: Duration = Duration::from_millis(20);

/// In a directory with such a file lies what can be made again, as <https://bford.info/cachedir/> says.
const CACHE: &str = "CACHEDIR.TAG";

/// How many directories a message lists.
const LISTED: usize = 10;

/// Top-level directories without files of people: parts of every view, packages, the sandbox's own.
const NOBODYS: &[&str] = &["boot", "dev", "etc", "gnu", "lost+found", "nix", "proc", "run", "snap", "sys", "tmp"];

/// File systems that can take long to answer, or have no files: not entered from above.
const FAR: &[&str] = &[
    "9p", "afs", "autofs", "ceph", "cgroup", "cgroup2", "cifs", "fuse", "nfs", "nfs4", "proc", "smb3", "sysfs",
    "tracefs",
];

/// Where to look.
#[derive(Debug, Default)]
pub struct Ground {
    /// Directories, absolute and without links, in the order in which they are looked at.
    pub roots: Vec<PathBuf>,
    /// Paths about which a rule speaks already: neither hidden nor entered from above.
    pub decided: HashSet<OsString>,
    /// Directories that are not entered from above, and are hidden or not like others.
    pub closed: HashSet<OsString>,
    /// Directories in which only well-known secrets are looked for, as far as a limit of its own allows.
    pub rest: Vec<PathBuf>,
}

impl Ground {
    /// The working directory and every directory that is granted, as far as `view` shows them.
    ///
    /// The whole host would be too much: with it comes only what holds files of people, the home directory first. Under the
    /// default list the directories of toolchains are left out.
    #[must_use]
    pub fn of(view: &View, workdir: &Path, home: Option<&Path>, names: &Names) -> Self {
        let root = Path::new("/");
        let mut roots: BTreeSet<PathBuf> = view.grants().map(Path::to_owned).collect();
        let whole = roots.remove(root);
        roots.remove(workdir);
        let decided: HashSet<_> = view.decided().map(|path| path.as_os_str().to_owned()).collect();
        let mut closed = HashSet::new();
        if names.default {
            let tools = home.into_iter().flat_map(|home| base::TOOLS.iter().map(move |tool| home.join(tool)));
            // Some are links to a disk with more room.
            let tools: Vec<PathBuf> = tools.filter_map(|tool| walk(&tool).ok()).map(|found| found.end).collect();
            roots.retain(|path| !tools.iter().any(|tool| path.starts_with(tool)));
            closed.extend(tools.into_iter().map(PathBuf::into_os_string));
        }
        let mut rest = Vec::new();
        if whole {
            let shown = |path: &PathBuf| view.shows(path) && !is_everywhere(path);
            // Whoever lists names means those in HOME, too.
            match home.map(Path::to_owned) {
                Some(home) if !names.default => drop(roots.insert(home)),
                home => rest.extend(home.filter(shown)),
            }
            closed.extend(far_mounts());
            let mut top: Vec<_> =
                fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            top.sort_unstable();
            let nobodys = |path: &PathBuf| NOBODYS.iter().any(|name| path.ends_with(name));
            rest.extend(top.into_iter().filter(|path| !nobodys(path) && shown(path) && path.is_dir()));
        }
        // First where a limit should be spent first.
        let roots = std::iter::once(workdir.to_owned()).chain(roots);
        let roots = roots.filter(|path| path != root && view.shows(path) && !is_everywhere(path));
        Self { roots: roots.collect(), decided, closed, rest }
    }
}

/// Whether `path` is a part of every view, or of a file system without files. People keep projects in two places of these.
fn is_everywhere(path: &Path) -> bool {
    let below = |places: &[&str]| places.iter().any(|place| path.starts_with(Path::new("/").join(place)));
    let project = |place: &str| path != Path::new(place) && path.starts_with(place);
    let system = below(base::SYSTEM) && !project("/usr/src") && !project("/usr/local/src");
    system || below(&["proc", "sys"]) || (below(&["dev"]) && !path.starts_with(base::SHARED))
}

/// Mount points of file systems that are not entered on the way.
fn far_mounts() -> Vec<OsString> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let far = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        let (mount, kind) = line.split_once(" - ")?;
        let kind = kind.split(['.', ' ']).next()?;
        // Blanks in it are written as octal numbers: such a place is entered like any other.
        FAR.contains(&kind).then(|| mount.split(' ').nth(4).map(OsString::from))?
    };
    table.split(|byte| *byte == b'\n').filter_map(far).collect()
}

/// What there is to hide.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// By path, each once.
    found: Vec<Found>,
    /// What has the name of a repository's data, shown and not entered; directories that may be such data themselves.
    pub repositories: Vec<PathBuf>,
    /// What was left undone and should be told.
    pub warning: Option<String>,
    /// What was left undone as announced.
    pub note: Option<String>,
    /// When the last look began.
    looked: Option<SystemTime>,
}

/// A name to hide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Absolute, without links.
    pub path: PathBuf,
    /// The file that had this name at the last look; `None` when there was none, or a link.
    now: Option<Identity>,
}

/// A file, and the moment of its last change: numbers of deleted files are given again at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    directory: bool,
    file: (u64, u64),
    changed: (i64, i64),
    names: u64,
}

impl Identity {
    fn of(path: &Path) -> Option<Self> {
        let data = fs::symlink_metadata(path).ok().filter(|data| !data.is_symlink())?;
        Some(Self {
            directory: data.is_dir(),
            file: (data.dev(), data.ino()),
            changed: (data.ctime(), data.ctime_nsec()),
            names: data.nlink(),
        })
    }
}

impl Identity {
    fn changed_at(&self) -> SystemTime {
        let (seconds, nanoseconds) = self.changed;
        let [seconds, nanoseconds] = [seconds, nanoseconds].map(|number| number.try_into().unwrap_or(0));
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds)
    }
}

impl Scan {
    /// Looks at every name once more, right before it is used: what is gone by now has no place for a mount.
    pub fn look_again(&mut self) {
        self.looked = Some(SystemTime::now());
        for found in &mut self.found {
            found.now = Identity::of(&found.path);
        }
    }

    /// What was there at the last look.
    pub fn present(&self) -> impl Iterator<Item = (&Path, FileKind)> {
        self.found.iter().filter_map(|found| {
            let kind = if found.now?.directory { FileKind::Directory } else { FileKind::File };
            Some((found.path.as_path(), kind))
        })
    }

    /// Files among them that have further names, which the scan cannot know.
    pub fn linked(&self) -> impl Iterator<Item = &Path> {
        let linked = |found: &&Found| found.now.is_some_and(|now| !now.directory && now.names > 1);
        self.found.iter().filter(linked).map(|found| found.path.as_path())
    }

    /// What `bwrap` has made to mount on, in place of names that have gone since the last look.
    ///
    /// Known by being new, empty, and of the owner and the mode that nothing else gives to an empty file.
    pub fn traces(&self) -> impl Iterator<Item = (&Path, FileKind)> {
        let made = |found: &Found| {
            let before = found.now?;
            let data = fs::symlink_metadata(&found.path).ok()?;
            let born = data.created().or_else(|_| data.modified()).ok()?;
            let kind = FileKind::of(&data);
            let mode = match kind {
                FileKind::File => libc::S_IFREG | 0o444,
                FileKind::Directory => libc::S_IFDIR | 0o755,
            };
            let new = (data.dev(), data.ino()) != before.file || born > before.changed_at();
            let ours = new
                && born + TICK >= self.looked?
                && data.mode() == mode
                && data.uid() == nix::unistd::geteuid().as_raw()
                && (kind == FileKind::Directory || (data.len() == 0 && data.nlink() == 1));
            ours.then_some(kind)
        };
        self.found.iter().filter_map(move |found| Some((found.path.as_path(), made(found)?)))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether something that was there at the last look has gone or has been replaced since.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.found.iter().any(|found| found.now.is_some() && Identity::of(&found.path) != found.now)
    }
}

/// Looks for names that begin with a dot and are none of `names`, and for well-known secrets.
pub fn scan(ground: &Ground, rule: &Hidden, names: &Names) -> Result<Scan> {
    let left = match rule.overflow {
        Overflow::Unlimited => u64::MAX,
        Overflow::Error | Overflow::Warn => rule.max_entries,
    };
    let mut search = Search::new(ground, names, rule.recursive, left);
    let (mut warning, mut note) = (None, None);
    if let Some(unfinished) = search.run() {
        let slow = unfinished.iter().all(|place| place.slow);
        let list = list(unfinished.iter().map(|place| place.path.as_path()));
        match rule.overflow {
            Overflow::Error if !names.default || !slow => return Err(too_many(rule.max_entries, &list)),
            Overflow::Warn | Overflow::Unlimited => {
                warning = Some(format!(
                    "names that begin with a dot stay visible where the search for them did not get: it ended after {} \
                     entries (--hidden-scan-max) and has not finished {list}",
                    rule.max_entries
                ));
            }
            Overflow::Error => {
                note = Some(format!(
                    "directories of dependencies were not searched to the end for names that begin with a dot, after {} \
                     entries (--hidden-scan-max): {list}",
                    rule.max_entries
                ));
            }
        }
    }
    if !ground.rest.is_empty() {
        search.look_for_secrets(left);
        note.get_or_insert_with(|| {
            format!(
                "of a grant of '/' the working directory is searched for names that begin with a dot, and of the rest {} \
                 entries (--hidden-scan-max) for well-known secrets",
                rule.max_entries
            )
        });
    }
    let Search { found: mut paths, links, repositories, .. } = search;
    paths.extend(links.iter().filter_map(|link| behind(link, ground, names)));
    paths.sort_unstable();
    paths.dedup();
    let found = paths.into_iter().map(|path| Found { path, now: None }).collect();
    Ok(Scan { found, repositories, warning, note, looked: None })
}

fn too_many(limit: u64, unfinished: &str) -> Error {
    Error::text(
        Kind::Policy,
        format!(
            "cannot find all names that begin with a dot and have to be hidden: more than {limit} entries \
             (--hidden-scan-max), and --hidden-scan-overflow is 'error'; not finished: {unfinished}"
        ),
    )
    .hint(
        "--hidden-scan-max N looks at more, --hidden-scan-overflow warn or unlimited starts all the same; in policies \
         cwd_hidden_scan_max_entries and cwd_hidden_scan_overflow, 'warn' or 'unlimited'",
    )
    .hint("--show-hidden '*' (cwd_allow_hidden = [\"*\"]) shows every name and looks for none")
}

/// The first directories, and how many more there are.
pub fn list<'a>(mut directories: impl Iterator<Item = &'a Path>) -> String {
    let mut words: Vec<_> = directories.by_ref().take(LISTED).map(|path| format!("'{}'", path.display())).collect();
    let more = directories.count();
    if more > 0 {
        words.push(format!("+{more} more"));
    }
    words.join(", ")
}

/// What a hidden link leads to, when that has to be hidden as well: nothing can be mounted over the link itself.
///
/// Under the default list only when the link has the name of a secret: what has another name of its own, without a dot, is
/// visible by that one anyway. Outside the roots it is out of sight or a part of every view. Directories that hold the link
/// itself stay, and so does what is shown by its own name.
fn behind(link: &Path, ground: &Ground, names: &Names) -> Option<PathBuf> {
    let (directory, name) = (link.parent()?, link.file_name()?);
    if names.default && base::secret(directory, name).is_none() {
        return None;
    }
    let end = walk(link).ok()?.end;
    let mut roots = ground.roots.iter().chain(&ground.rest);
    let inside = roots.any(|root| end != *root && end.starts_with(root));
    let by_name = end.file_name().is_some_and(|name| is_dotted(name) && names.contains(name));
    let decided = ground.decided.contains(end.as_os_str());
    (inside && !by_name && !decided && !link.starts_with(&end)).then_some(end)
}

fn is_dotted(name: &OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

/// A directory still to be looked at.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// The directory above, as an index of [`Search::entered`].
    above: Option<usize>,
    slow: bool,
    /// How many directories it lies below a name that begins with a dot; `None` when that is too far for a secret, or there is
    /// no such name.
    below_dot: Option<usize>,
}

impl Place {
    fn root(path: &Path) -> Self {
        let below_dot = path.iter().rev().take(base::DEEPEST_SECRET).position(is_dotted);
        Self { path: path.to_owned(), above: None, slow: false, below_dot }
    }
}

/// A scan under way: breadth first, so that a limit leaves out what lies deepest.
struct Search<'a> {
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
    found: Vec<PathBuf>,
    links: Vec<PathBuf>,
    repositories: Vec<PathBuf>,
}

/// An entry that matters.
enum What {
    Hide,
    Link,
    Repository,
    Enter { slow: bool },
}

impl<'a> Search<'a> {
    fn new(ground: &'a Ground, names: &'a Names, recursive: bool, left: u64) -> Self {
        let whole = |path: &&PathBuf| path.file_name().is_some_and(|name| name == WHOLE);
        Self {
            ground,
            names,
            recursive,
            secrets_only: false,
            left,
            quick: ground.roots.iter().filter(|path| !whole(path)).map(|path| Place::root(path)).collect(),
            slow: VecDeque::new(),
            entered: Vec::new(),
            found: Vec::new(),
            links: Vec::new(),
            repositories: ground.roots.clone(),
        }
    }

    /// Looks at the rest of the host, as far as `left` entries.
    fn look_for_secrets(&mut self, left: u64) {
        self.left = left;
        self.secrets_only = true;
        self.recursive = true;
        self.quick = self.ground.rest.iter().map(|path| Place::root(path)).collect();
        self.slow.clear();
        let _unfinished = self.run();
    }

    /// Returns the directories that the limit left unfinished, if it did.
    fn run(&mut self) -> Option<Vec<Place>> {
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
        for entry in entries {
            let Ok(entry) = entry else { break };
            if self.left == 0 {
                finished = false;
                break;
            }
            self.left -= 1;
            let name = entry.file_name();
            cache |= name == CACHE;
            // The kind comes with the name; gone is as good as not there.
            if let Ok(kind) = entry.file_type()
                && let Some(what) = self.what(place, &name, kind)
            {
                names.push((name, what));
            }
        }
        names.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (name, what) in names {
            let dotted = is_dotted(&name);
            let path = place.path.join(name);
            if self.ground.decided.contains(path.as_os_str()) {
                continue;
            }
            match what {
                What::Hide => self.found.push(path),
                What::Link => self.links.push(path),
                What::Repository => self.repositories.push(path),
                What::Enter { .. } if self.ground.closed.contains(path.as_os_str()) => {}
                What::Enter { slow } => {
                    let slow = slow || place.slow || cache;
                    let queue = if slow { &mut self.slow } else { &mut self.quick };
                    let deeper = place.below_dot.map(|depth| depth + 1).filter(|depth| *depth < base::DEEPEST_SECRET);
                    let below_dot = if dotted { Some(0) } else { deeper };
                    queue.push_back(Place { path, above: Some(number), slow, below_dot });
                }
            }
        }
        finished
    }

    fn what(&self, place: &Place, name: &OsStr, kind: FileType) -> Option<What> {
        let dotted = is_dotted(name);
        let hidden = if self.secrets_only {
            (dotted || place.below_dot.is_some()) && self.is_secret(place, name)
        } else {
            // What is not listed is hidden; what lies below something listed can be a secret by its place.
            (dotted && !self.names.contains(name)) || (place.below_dot.is_some() && self.is_secret(place, name))
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

    /// Whether a secret goes by this name here, and nobody listed it.
    fn is_secret(&self, place: &Place, name: &OsStr) -> bool {
        base::secret(&place.path, name).is_some() && !self.names.listed.contains(name)
    }
}

#[cfg(test)]
mod tests;
