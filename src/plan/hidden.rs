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
use crate::policy::hidden::Overflow;

/// Directories of many entries and few secrets, looked at last so that a limit hits them first.
const SLOW: &[&str] = &["node_modules", "target", ".venv", ".mypy_cache"];

/// Shown as it is: git needs all of it, and nothing in it is hidden by a dot.
const WHOLE: &str = ".git";

/// How far the time stamps of files lag behind the clock, at most.
const TICK: Duration = Duration::from_millis(20);

/// How many directories a message lists.
const LISTED: usize = 10;

/// Where to look.
#[derive(Debug, Default)]
pub struct Ground {
    /// Directories, absolute and without links, in the order in which they are looked at.
    pub roots: Vec<PathBuf>,
    /// Paths about which a rule speaks already: neither hidden nor entered from above.
    pub decided: HashSet<OsString>,
}

impl Ground {
    /// The working directory and every directory that is granted, as far as `view` shows them; and whether that includes the
    /// whole host, of which `home` stands for the rest.
    #[must_use]
    pub fn of(view: &View, workdir: &Path, home: Option<&Path>) -> (Self, bool) {
        let root = Path::new("/");
        let mut roots: BTreeSet<&Path> = view.grants().collect();
        let whole = roots.remove(root);
        roots.extend(home.filter(|_| whole));
        roots.remove(workdir);
        // First where a limit should be spent first.
        let roots = [workdir].into_iter().chain(roots);
        let roots = roots.filter(|path| *path != root && view.shows(path) && !is_everywhere(path));
        let decided = view.decided().map(|path| path.as_os_str().to_owned()).collect();
        (Self { roots: roots.map(Path::to_owned).collect(), decided }, whole)
    }
}

/// Whether `path` is a part of every view, or of a file system without files. People keep projects in two places of these.
fn is_everywhere(path: &Path) -> bool {
    let below = |places: &[&str]| places.iter().any(|place| path.starts_with(Path::new("/").join(place)));
    let project = |place: &str| path != Path::new(place) && path.starts_with(place);
    let system = below(base::SYSTEM) && !project("/usr/src") && !project("/usr/local/src");
    system || below(&["proc", "sys"]) || (below(&["dev"]) && !path.starts_with(base::SHARED))
}

/// What there is to hide.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// By path, each once.
    found: Vec<Found>,
    /// What was left undone.
    pub warning: Option<String>,
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

/// Looks for names that begin with a dot and are none of `shown`.
pub fn scan(ground: &Ground, rule: &Hidden, shown: &BTreeSet<OsString>) -> Result<Scan> {
    let left = match rule.overflow {
        Overflow::Unlimited => u64::MAX,
        Overflow::Error | Overflow::Warn => rule.max_entries,
    };
    let mut search = Search::new(ground, shown, rule.recursive, left);
    let unfinished = search.run();
    let mut paths = search.found;
    paths.extend(search.links.iter().filter_map(|link| behind(link, ground, shown)));
    paths.sort_unstable();
    paths.dedup();
    let warning = match (unfinished, rule.overflow) {
        (Some(unfinished), Overflow::Error) => return Err(too_many(rule.max_entries, &unfinished)),
        (Some(unfinished), Overflow::Warn | Overflow::Unlimited) => Some(format!(
            "names that begin with a dot stay visible where the scan for them did not get: it ended after {} entries \
             (cwd_hidden_scan_max_entries) and has not finished {}",
            rule.max_entries,
            list(&unfinished)
        )),
        (None, _) => None,
    };
    Ok(Scan { found: paths.into_iter().map(|path| Found { path, now: None }).collect(), warning, looked: None })
}

fn too_many(limit: u64, unfinished: &[PathBuf]) -> Error {
    Error::text(
        Kind::Policy,
        format!(
            "cannot look for names that begin with a dot: more than {limit} entries (cwd_hidden_scan_max_entries), and \
             cwd_hidden_scan_overflow is 'error'; not finished: {}",
            list(unfinished)
        ),
    )
    .hint("raise cwd_hidden_scan_max_entries, or set cwd_hidden_scan_overflow to 'warn' or 'unlimited'")
    .hint("cwd_allow_hidden = [\"*\"] shows every name and looks for none")
}

/// The first directories, and how many more there are.
fn list(directories: &[PathBuf]) -> String {
    let mut words: Vec<_> = directories.iter().take(LISTED).map(|path| format!("'{}'", path.display())).collect();
    if directories.len() > LISTED {
        words.push(format!("+{} more", directories.len() - LISTED));
    }
    words.join(", ")
}

/// What a hidden link leads to, when that has to be hidden as well: nothing can be mounted over the link itself.
///
/// Outside the roots it is out of sight or a part of every view. Directories that hold the link itself stay, and so does
/// what is shown by its own name.
fn behind(link: &Path, ground: &Ground, shown: &BTreeSet<OsString>) -> Option<PathBuf> {
    let end = walk(link).ok()?.end;
    let inside = ground.roots.iter().any(|root| end != *root && end.starts_with(root));
    let by_name = end.file_name().is_some_and(|name| is_dotted(name) && shown.contains(name));
    let decided = ground.decided.contains(end.as_os_str());
    (inside && !by_name && !decided && !link.starts_with(&end)).then_some(end)
}

fn is_dotted(name: &OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

/// A directory still to be looked at.
struct Place {
    path: PathBuf,
    /// The directory above, as an index of [`Search::entered`].
    above: Option<usize>,
    slow: bool,
}

/// A scan under way: breadth first, so that a limit leaves out what lies deepest.
struct Search<'a> {
    ground: &'a Ground,
    shown: &'a BTreeSet<OsString>,
    recursive: bool,
    /// Entries that may still be looked at.
    left: u64,
    quick: VecDeque<Place>,
    slow: VecDeque<Place>,
    /// Device and inode of each directory so far, and of which it is an entry.
    entered: Vec<(u64, u64, Option<usize>)>,
    found: Vec<PathBuf>,
    links: Vec<PathBuf>,
}

/// An entry that matters.
enum What {
    Hide,
    Link,
    Enter { slow: bool },
}

impl<'a> Search<'a> {
    fn new(ground: &'a Ground, shown: &'a BTreeSet<OsString>, recursive: bool, left: u64) -> Self {
        let root = |path: &PathBuf| Place { path: path.clone(), above: None, slow: false };
        let whole = |path: &&PathBuf| path.file_name().is_some_and(|name| name == WHOLE);
        Self {
            ground,
            shown,
            recursive,
            left,
            quick: ground.roots.iter().filter(|path| !whole(path)).map(root).collect(),
            slow: VecDeque::new(),
            entered: Vec::new(),
            found: Vec::new(),
            links: Vec::new(),
        }
    }

    /// Returns the directories that the limit left unfinished, if it did.
    fn run(&mut self) -> Option<Vec<PathBuf>> {
        while let Some(place) = self.quick.pop_front().or_else(|| self.slow.pop_front()) {
            let Some(number) = self.enter(&place) else { continue };
            if !self.look(&place, number) {
                let queued = self.quick.drain(..).chain(self.slow.drain(..)).map(|place| place.path);
                return Some(std::iter::once(place.path).chain(queued).collect());
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
        for entry in entries {
            let Ok(entry) = entry else { break };
            if self.left == 0 {
                finished = false;
                break;
            }
            self.left -= 1;
            let name = entry.file_name();
            // The kind comes with the name; gone is as good as not there.
            if let Ok(kind) = entry.file_type()
                && let Some(what) = self.what(&name, kind)
            {
                names.push((name, what));
            }
        }
        names.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (name, what) in names {
            let path = place.path.join(name);
            if self.ground.decided.contains(path.as_os_str()) {
                continue;
            }
            match what {
                What::Hide => self.found.push(path),
                What::Link => self.links.push(path),
                What::Enter { slow } => {
                    let slow = slow || place.slow;
                    let queue = if slow { &mut self.slow } else { &mut self.quick };
                    queue.push_back(Place { path, above: Some(number), slow });
                }
            }
        }
        finished
    }

    fn what(&self, name: &OsStr, kind: FileType) -> Option<What> {
        if is_dotted(name) && !self.shown.contains(name) {
            return Some(if kind.is_symlink() { What::Link } else { What::Hide });
        }
        let enter = self.recursive && kind.is_dir() && name != WHOLE;
        enter.then(|| What::Enter { slow: SLOW.iter().any(|slow| name == *slow) })
    }
}

#[cfg(test)]
mod tests;
