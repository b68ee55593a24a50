//! The scan for names that begin with a dot, the only walk through a file system that this program makes.
//!
//! Reads directories, follows no link into one and changes nothing. It says what to hide; the view hides it. What comes into
//! being after the scan is not hidden in this run.

mod search;
mod worktrees;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::links::walk;
use super::view::{FileKind, Rule, View};
use super::{base, closed, heed};
use crate::error::{Error, Kind, Result};
use crate::host::mounts;
use crate::policy::Hidden;
use crate::policy::hidden::{Names, Overflow};
use crate::sys::process::describe;
use search::{Search, WHOLE};
pub use worktrees::Told;

/// How far the time stamps of files lag behind the clock, at most.
const TICK: Duration = Duration::from_millis(20);

/// How many entries of the rest of a host are looked at, unless a tenth of the limit is more.
const REST: u64 = 50_000;

/// How many directories a message lists.
const LISTED: usize = 5;

/// How many names are listed that may be the reason for a failure.
const SUSPECTS: usize = 3;

/// Top-level directories without files of people: parts of every view, packages, the sandbox's own.
const NOBODYS: &[&str] = &["boot", "dev", "gnu", "lost+found", "nix", "proc", "run", "snap", "sys", "tmp"];

/// File systems that can take long to answer, or have no files: not entered from above.
const FAR: &[&str] = &[
    "9p", "afs", "autofs", "ceph", "cgroup", "cgroup2", "cifs", "fuse", "nfs", "nfs4", "proc", "smb3", "sysfs",
    "tracefs",
];

/// Those of them that hold files of people.
const OF_PEOPLE: &[&str] = &["9p", "afs", "autofs", "ceph", "cifs", "fuse", "nfs", "nfs4", "smb3"];

/// Where to look.
#[derive(Debug, Default)]
pub struct Ground {
    /// Directories, absolute and without links, in the order in which they are looked at.
    pub roots: Vec<PathBuf>,
    /// Paths about which a rule speaks already: neither hidden nor entered from above.
    pub decided: HashSet<OsString>,
    /// Directories in which only well-known secrets and repositories are looked for, since somebody granted them.
    pub narrow: Vec<PathBuf>,
    /// The same, where only reading is granted: as far as a limit of their own allows.
    pub tools: Vec<PathBuf>,
    /// Such directories below others: hidden or not like others, and then looked at like [`Ground::tools`].
    pub tools_below: HashSet<OsString>,
    /// Directories that are not entered from above, and are hidden or not like others.
    pub closed: HashSet<OsString>,
    /// Directories in which only well-known secrets are looked for, as far as a limit of its own allows.
    pub rest: Vec<PathBuf>,
    /// File systems with files of people that are shown and not entered.
    pub unsearched: Vec<PathBuf>,
    /// For roots in the work tree of a repository that is shown: the top of that.
    pub tops: HashMap<PathBuf, PathBuf>,
}

impl Ground {
    /// The working directory and every directory that is granted, as far as `view` shows them.
    ///
    /// The whole host would be too much: with it comes only what holds files of people, the home directory first. But for a list
    /// that counts alone, in directories of toolchains nothing but well-known secrets and repositories is looked for, and so it is
    /// below system directories that can be written.
    #[must_use]
    pub fn of(view: &View, workdir: &Path, home: Option<&Path>, names: &Names) -> Self {
        let root = Path::new("/");
        let mut roots: BTreeSet<PathBuf> = view.grants().map(Path::to_owned).collect();
        let whole = roots.remove(root);
        roots.remove(workdir);
        let decided: HashSet<_> = view.decided().map(|path| path.as_os_str().to_owned()).collect();
        let mut closed = HashSet::new();
        let (mut narrow, mut tools, mut tools_below) = (Vec::new(), Vec::new(), HashSet::new());
        if !names.counts_alone() {
            // By name alone: a link in the place of one could be a command's, to whatever it wants to see.
            let places: Vec<PathBuf> =
                home.into_iter().flat_map(|home| base::TOOLS.iter().map(move |tool| home.join(tool))).collect();
            let is_tool = |path: &Path| places.iter().any(|place| path.starts_with(place));
            let found = roots.extract_if(.., |path| is_tool(path));
            // What a command can make weakens no later run: there the limit is the one of all that was named.
            (narrow, tools) = found.partition(|path| view.writable(path));
            // Where a wider grant of writing reaches them, anything can be moved into them.
            let places = places.into_iter().filter(|place| !view.writable(place));
            tools_below.extend(places.map(PathBuf::into_os_string));
        }
        narrow.extend(roots.extract_if(.., |path| is_system(path) && view.writable(path)));
        let (mut rest, mut unsearched) = (Vec::new(), Vec::new());
        if whole {
            let shown = |path: &PathBuf| view.shows(path) && !is_everywhere(path);
            // Whoever lists names means those in HOME, too.
            match home.map(Path::to_owned) {
                Some(home) if names.counts_alone() => drop(roots.insert(home)),
                // HOME may be the root: all else would wait for what lies nearest below it.
                home => rest.extend(home.filter(|home| home != root && shown(home))),
            }
            for (point, kind) in far_mounts(&mounts::table().unwrap_or_default()) {
                let people = OF_PEOPLE.contains(&kind.as_str()) && view.shows(&point) && !is_everywhere(&point);
                if people && !decided.contains(point.as_os_str()) {
                    unsearched.push(point.clone());
                }
                closed.insert(point.into_os_string());
            }
            let mut top: Vec<_> =
                fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            top.sort_unstable();
            let nobodys = |path: &PathBuf| NOBODYS.iter().any(|name| path.ends_with(name));
            rest.extend(top.into_iter().filter(|path| !nobodys(path) && shown(path) && path.is_dir()));
        }
        // First where a limit should be spent first.
        let roots = std::iter::once(workdir.to_owned()).chain(roots);
        let roots: Vec<_> = roots.filter(|path| path != root && view.shows(path) && !is_everywhere(path)).collect();
        for places in [&mut narrow, &mut tools] {
            places.retain(|path| view.shows(path));
        }
        // Many roots may lie in one directory.
        let mut is_top: HashMap<PathBuf, bool> = HashMap::new();
        let mut top = |root: &PathBuf| {
            let top = root.ancestors().skip(1).find(|top| {
                let known = is_top.get(*top).copied();
                known.unwrap_or_else(|| {
                    let found = fs::symlink_metadata(top.join(WHOLE)).is_ok();
                    is_top.insert((*top).to_owned(), found);
                    found
                })
            })?;
            view.shows(&top.join(WHOLE)).then(|| (root.clone(), top.to_owned()))
        };
        let tops = roots.iter().chain(&narrow).chain(&tools).filter_map(&mut top).collect();
        Self { roots, decided, narrow, tools, tools_below, closed, rest, unsearched, tops }
    }

    /// Whatever is searched, and in whichever way.
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.roots.iter().chain(&self.narrow).chain(&self.tools).chain(&self.rest)
    }
}

/// Whether `path` is a part of every view, or of a file system without files. People keep projects in two places of these.
fn is_everywhere(path: &Path) -> bool {
    let top = top_name(path).unwrap_or_default();
    is_system(path) || top == "proc" || top == "sys" || (top == "dev" && !path.starts_with(base::SHARED))
}

/// Whether `path` is a directory of the system or lies in one, and is no place of projects.
fn is_system(path: &Path) -> bool {
    let project = |place: &str| path != Path::new(place) && path.starts_with(place);
    let below = top_name(path).is_some_and(|top| base::SYSTEM.iter().any(|name| top == *name));
    below && !project("/usr/src") && !project("/usr/local/src")
}

/// The name below the root that an absolute `path` is or lies in.
fn top_name(path: &Path) -> Option<&OsStr> {
    path.iter().nth(1)
}

/// Mount points of file systems that are not entered on the way, and their types.
fn far_mounts(table: &[u8]) -> Vec<(PathBuf, String)> {
    let far = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        let (mount, kind) = line.split_once(" - ")?;
        let kind = kind.split(['.', ' ']).next()?;
        // Blanks in it are written as octal numbers: such a place is entered like any other.
        FAR.contains(&kind).then(|| Some((mount.split(' ').nth(4)?.into(), kind.to_owned())))?
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
    pub warnings: Vec<String>,
    /// What was left undone as announced.
    pub notes: Vec<String>,
    /// What git had to say.
    pub told: Told,
    /// When the last look began.
    looked: Option<SystemTime>,
}

/// A name to hide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Absolute, without links.
    pub path: PathBuf,
    /// Whether it is hidden because nobody listed its name, and not as a secret or for what cannot be searched.
    unknown: bool,
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
    fn of(path: &Path) -> io::Result<Option<Self>> {
        let data = closed::look(path)?.filter(|data| !data.is_symlink());
        Ok(data.map(|data| Self {
            directory: data.is_dir(),
            file: (data.dev(), data.ino()),
            changed: (data.ctime(), data.ctime_nsec()),
            names: data.nlink(),
        }))
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
    pub fn look_again(&mut self) -> Result<()> {
        self.looked = Some(SystemTime::now());
        for found in &mut self.found {
            found.now = Identity::of(&found.path).map_err(|error| {
                let path = found.path.display();
                Error::text(
                    Kind::Policy,
                    format!("cannot hide '{path}', which could be seen before: {}", describe(&error)),
                )
            })?;
        }
        Ok(())
    }

    /// What was there at the last look.
    pub fn present(&self) -> impl Iterator<Item = (&Path, FileKind)> {
        self.found.iter().filter_map(|found| {
            let kind = if found.now?.directory { FileKind::Directory } else { FileKind::File };
            Some((found.path.as_path(), kind))
        })
    }

    /// What [`ALL_BUT_SECRETS`](crate::policy::hidden::ALL_BUT_SECRETS) would show of what was there at the last look.
    pub fn unknown(&self) -> impl Iterator<Item = &Path> {
        self.found.iter().filter(|found| found.unknown && found.now.is_some()).map(|found| found.path.as_path())
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
                FileKind::File => 0o444,
                FileKind::Directory => 0o755,
            };
            let new = (data.dev(), data.ino()) != before.file || born > before.changed_at();
            let ours = new
                && born + TICK >= self.looked?
                && (data.is_file() || data.is_dir())
                && data.mode() & 0o7777 == mode
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
        self.found.iter().any(|found| found.now.is_some() && Identity::of(&found.path).ok() != Some(found.now))
    }
}

/// Looks for names that begin with a dot and are none of `names`, and for well-known secrets.
pub fn scan(ground: &Ground, rule: &Hidden, names: &Names) -> Result<Scan> {
    let left = match rule.overflow {
        Overflow::Unlimited => u64::MAX,
        Overflow::Error | Overflow::Warn => rule.max_entries,
    };
    let mut search = Search::new(ground, names, rule.recursive, left);
    let (mut warnings, mut notes) = (Vec::new(), Vec::new());
    let unfinished = search.run();
    heed()?;
    let refused = unfinished.is_some() && rule.overflow == Overflow::Error;
    let tools = if refused { None } else { search.look_at_tools(left) };
    heed()?;
    if let Some((path, error)) = search.blocked.first() {
        let reason = format!("cannot search '{}' for names that begin with a dot: {}", path.display(), describe(error));
        if rule.overflow == Overflow::Error {
            return Err(Error::text(Kind::Policy, reason)
                .hint(format!("chmod u+rx '{}' lets it be searched", path.display()))
                .hint("--show-hidden '*' (cwd_allow_hidden = [\"*\"]) shows every name and looks for none"));
        }
        warnings.push(format!("{reason}: they stay visible"));
    }
    if let Some(unfinished) = unfinished {
        let list = list(unfinished.iter().map(|place| place.path.as_path()));
        if rule.overflow == Overflow::Error {
            return Err(too_many(rule.max_entries, &list));
        }
        warnings.push(format!(
            "names that begin with a dot stay visible, and repositories unprotected, where the search for them did not get: it \
             ended after {} entries (--hidden-scan-max) and has not finished {list}",
            rule.max_entries
        ));
    }
    if !ground.unsearched.is_empty() {
        warnings.push(format!(
            "well-known secrets stay visible in file systems that can take long to answer and are not searched (a grant of one is, a \
             mask hides it): {}",
            list(ground.unsearched.iter().map(PathBuf::as_path))
        ));
    }
    if !ground.rest.is_empty() {
        // Of less use than the search of what was named, and nothing fails at its end.
        let rest = (left / 10).max(left.min(REST));
        let mut unfinished = search.look_for_secrets(rest).unwrap_or_default();
        unfinished.extend(search.look_at_tools(rest).unwrap_or_default());
        heed()?;
        // Directories of dependencies and toolchains hold no secret of the user's: a remark is enough.
        let slow = unfinished.iter().all(|place| place.slow);
        let list = list(unfinished.iter().filter(|place| slow || !place.slow).map(|place| place.path.as_path()));
        if !slow {
            warnings.push(format!(
                "well-known secrets stay visible where the search of '/' for them did not get: it ended after {rest} entries \
                 (--hidden-scan-max) and has not finished {list}"
            ));
        } else if !unfinished.is_empty() {
            notes.push(format!(
                "directories of dependencies and toolchains were not searched to the end for well-known secrets, after {rest} entries \
                 (--hidden-scan-max): {list}"
            ));
        }
        notes.push(
            "of a grant of '/' the working directory is searched for names that begin with a dot, and the rest for \
             well-known secrets"
                .into(),
        );
    }
    if let Some(unfinished) = tools {
        let list = list(unfinished.iter().map(|place| place.path.as_path()));
        warnings.push(format!(
            "well-known secrets stay visible in directories of toolchains where the search for them did not get: it ended after \
             {left} entries (--hidden-scan-max) and has not finished {list}"
        ));
    }
    let Search { found: mut paths, links, mut repositories, worktrees, .. } = search;
    let mut seen = HashSet::new();
    repositories.retain(|path| seen.insert(path.clone()));
    paths.extend(links.iter().filter_map(|link| behind(link, ground, names)).map(|path| (path, false)));
    paths.sort_unstable();
    // Of two reasons the better one counts, which comes first.
    paths.dedup_by(|next, path| next.0 == path.0);
    let found = paths.into_iter().map(|(path, unknown)| Found { path, unknown, now: None }).collect();
    Ok(Scan { found, repositories, warnings, notes, told: worktrees.told, looked: None })
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

/// What a command that failed may have missed: names that an earlier run may have left and this one could not see. `None` when
/// there are none. Those that a command could have made come first.
#[must_use]
pub fn suspects(scan: &Scan, view: &View) -> Option<String> {
    let hidden = |path: &&Path| matches!(view.decides(path), Some((at, Rule::Hidden)) if at == *path);
    let mut unknown: Vec<&Path> = scan.unknown().filter(hidden).collect();
    unknown.sort_by_key(|path| !path.parent().is_some_and(|parent| view.writable(parent)));
    (!unknown.is_empty()).then(|| first(SUSPECTS, unknown.into_iter()))
}

/// The first directories, and how many more there are.
pub fn list<'a>(directories: impl Iterator<Item = &'a Path>) -> String {
    first(LISTED, directories)
}

fn first<'a>(most: usize, mut paths: impl Iterator<Item = &'a Path>) -> String {
    let mut words: Vec<_> = paths.by_ref().take(most).map(|path| format!("'{}'", path.display())).collect();
    let more = paths.count();
    if more > 0 {
        words.push(format!("+{more} more"));
    }
    words.join(", ")
}

/// What a hidden link leads to, when that has to be hidden as well: nothing can be mounted over the link itself.
///
/// But for a list that counts alone only when the link has the name of a secret: what has another name of its own, without a dot,
/// is visible by that one anyway. Outside the roots it is out of sight or a part of every view. Directories that hold the link
/// itself stay, and so does what is shown by its own name.
fn behind(link: &Path, ground: &Ground, names: &Names) -> Option<PathBuf> {
    let (directory, name) = (link.parent()?, link.file_name()?);
    if !names.counts_alone() && base::secret(directory, name).is_none() {
        return None;
    }
    let end = walk(link).ok()?.end;
    let inside = ground.all().any(|root| end != *root && end.starts_with(root));
    let by_name = end.file_name().is_some_and(|name| is_dotted(name) && names.vouches_for(name));
    let decided = ground.decided.contains(end.as_os_str());
    (inside && !by_name && !decided && !link.starts_with(&end)).then_some(end)
}

pub(super) fn is_dotted(name: &OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

#[cfg(test)]
mod tests;
