//! Symbolic links in a git directory: git on the host writes through them and deletes behind them. So it does through symbolic refs that
//! lead out of `refs`. And FIFOs, on which it waits.
//!
//! Follows none, and goes by descriptors. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::super::build::Builder;
use super::super::closed::is_absence;
use super::refs::{file_leads_out, is_pseudo};
use super::seen::is_index;
use crate::sys::at::{enter, open, through};

/// So many names are looked at in a git directory before the run.
const BEFORE: usize = 250_000;

/// And after it: the command may have made some.
pub const AFTER: usize = 4 * BEFORE;

/// Nothing of git's own is deeper, and no name of a branch.
const DEEPEST: usize = 256;

/// So many directories on the way to one are kept open.
const HELD: usize = 8;

/// What comes before the number in a name that we give.
pub const ASIDE: &str = ".sandbox-run-";

/// Whether a name is one that we give.
#[must_use]
pub fn is_aside(name: &str) -> bool {
    let number = name.rsplit_once(ASIDE).map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Links that were in a git directory before the run.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Their texts, by paths from the git directory.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Directories that were not looked at, or not to their end.
    pub cut: BTreeSet<PathBuf>,
    /// Directories closed to their owner, with their permission bits.
    pub closed: BTreeMap<PathBuf, u32>,
}

impl Known {
    /// Whether what is at `path` may have been there. At the top all is known.
    #[must_use]
    pub fn may_have(&self, path: &Path) -> bool {
        let above = path.ancestors().skip(1);
        !self.cut.is_empty() && above.take_while(|above| *above != Path::new("")).any(|above| self.cut.contains(above))
    }
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A symbolic link.
    Link,
    /// Which leads nowhere and keeps git waiting.
    Fifo,
    /// A symbolic ref that leads out of `refs`.
    Ref,
}

/// One that was found.
#[derive(Debug)]
pub struct Link<'a> {
    /// What it is.
    pub kind: Kind,
    /// What it lies in.
    pub directory: &'a File,
    /// Its name there.
    pub name: &'a OsStr,
    /// From the git directory.
    pub path: &'a Path,
    /// Where it leads; empty for a FIFO.
    pub text: PathBuf,
}

/// What git asks for by name or goes into.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Link,
    Fifo,
    /// A regular file that git reads as a ref.
    Ref,
    Other,
}

/// How a directory is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// A git directory.
    Top,
    /// Its names, and all that is below.
    Deep,
    /// The same, of refs.
    Refs,
    /// Its names.
    Flat,
    /// `objects`: of millions of them the directories do.
    Objects,
    /// What holds git directories of submodules, which are known as such.
    Modules,
    /// What holds the data of worktrees.
    Worktrees,
    /// The data of a worktree, which can have submodules of its own.
    Worktree,
}

impl Level {
    /// How directories in one are looked at, the likely ones first; `None` for those that are not.
    fn of(self, name: &OsStr) -> Option<(u8, Self)> {
        let name = name.to_str().unwrap_or_default();
        match (self, name) {
            (Self::Flat, _) | (Self::Top, "hooks") => None,
            // git asks for its own names there.
            (Self::Top, name) if is_aside(name) => None,
            (Self::Top, "objects") => Some((0, Self::Objects)),
            (Self::Top | Self::Worktree, "modules") | (Self::Modules, _) => Some((0, Self::Modules)),
            (Self::Top, "worktrees") => Some((0, Self::Worktrees)),
            (Self::Worktrees, _) => Some((0, Self::Worktree)),
            (Self::Top | Self::Worktree, "refs") | (Self::Refs, _) => Some((0, Self::Refs)),
            (Self::Top | Self::Objects, "info") | (Self::Worktree | Self::Deep, _) => Some((0, Self::Deep)),
            (Self::Top, "logs") => Some((1, Self::Deep)),
            // What others keep there can be large.
            (Self::Top, "lfs" | "annex") => Some((2, Self::Flat)),
            (Self::Top, _) => Some((3, Self::Deep)),
            (Self::Objects, "pack") => Some((0, Self::Flat)),
            (Self::Objects, _) => None,
        }
    }

    /// Whether files of this name are refs.
    fn has_ref(self, name: &OsStr) -> bool {
        match self {
            Self::Refs => true,
            // Of a submodule it is not known yet that it is one.
            Self::Top | Self::Worktree | Self::Modules => is_pseudo(name.as_bytes()),
            Self::Deep | Self::Flat | Self::Objects | Self::Worktrees => false,
        }
    }
}

/// A look through a git directory.
pub struct Look<'a> {
    /// How many names more.
    pub left: usize,
    /// Whether refs are read.
    pub refs: bool,
    /// Called for every link and FIFO, and every ref that leads out.
    pub found: &'a mut dyn FnMut(Link),
    /// Called for a directory that cannot be looked at; whether another attempt makes sense.
    pub closed: &'a mut dyn FnMut(&File, &Path) -> bool,
    /// Called for a directory that is deeper than any of git's, with what it lies in.
    pub deep: &'a mut dyn FnMut(&File, &Path),
    /// Whether a git directory in `modules` is looked through for itself.
    pub apart: &'a dyn Fn(&Path) -> bool,
}

impl Look<'_> {
    /// Which directories were not looked at, or not to their end.
    pub fn through(&mut self, top: &File) -> io::Result<BTreeSet<PathBuf>> {
        let mut way = Way::from(top)?;
        let mut cut = BTreeSet::new();
        let mut left = vec![(PathBuf::new(), Level::Top)];
        while let Some((at, level)) = left.pop() {
            let directory = match way.open(&at) {
                Ok(directory) => directory,
                // Gone, or nothing that we could do anything about.
                Err(error) if is_absence(&error) || error.kind() == io::ErrorKind::PermissionDenied => continue,
                Err(_) => {
                    cut.insert(at);
                    continue;
                }
            };
            let read = match self.names(directory, level) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && (self.closed)(directory, &at) => {
                    self.names(directory, level)
                }
                read => read,
            };
            let names = match read {
                Ok((names, all)) => {
                    if !all {
                        cut.insert(at.clone());
                    }
                    names
                }
                Err(error) if is_absence(&error) || error.kind() == io::ErrorKind::PermissionDenied => continue,
                Err(_) => {
                    cut.insert(at);
                    continue;
                }
            };
            left.extend(self.level(directory, &at, level, &names));
        }
        Ok(cut)
    }

    /// Directories in one that are looked at next, the first one last.
    fn level(
        &mut self,
        directory: &File,
        at: &Path,
        level: Level,
        names: &[(OsString, Sort)],
    ) -> Vec<(PathBuf, Level)> {
        let has = |name: &str| names.iter().any(|(one, _)| one == name);
        let level = match level {
            Level::Modules if has("HEAD") && has("objects") => {
                if (self.apart)(at) {
                    return Vec::new();
                }
                Level::Top
            }
            level => level,
        };
        let is_deep = at.components().count() >= DEEPEST;
        let mut below = Vec::new();
        for (name, sort) in names {
            let path = at.join(name);
            let found = match sort {
                Sort::Link => fs::read_link(through(directory).join(name)).ok().map(|text| (Kind::Link, text)),
                // Of an index more is said.
                Sort::Fifo => (!is_index(name)).then(|| (Kind::Fifo, PathBuf::new())),
                Sort::Ref => file_leads_out(&through(directory).join(name))
                    .map(|target| (Kind::Ref, OsStr::from_bytes(&target).into())),
                Sort::Other => None,
            };
            if let Some((kind, text)) = found {
                (self.found)(Link { kind, directory, name, path: &path, text });
            } else if *sort == Sort::Other
                && let Some((order, level)) = level.of(name)
            {
                if is_deep {
                    (self.deep)(directory, &path);
                } else {
                    below.push((order, path, level));
                }
            }
        }
        below.sort_unstable_by(|one, other| (other.0, &other.1).cmp(&(one.0, &one.1)));
        below.into_iter().map(|(_, path, level)| (path, level)).collect()
    }

    /// Links, refs and directories in a directory, by name, and whether these are all.
    fn names(&mut self, directory: &File, level: Level) -> io::Result<(Vec<(OsString, Sort)>, bool)> {
        let mut names = Vec::new();
        // Without a right to search there is none to look at a name.
        fs::symlink_metadata(through(directory).join("HEAD")).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Err(error),
            _ => fs::metadata(through(directory)),
        })?;
        for entry in fs::read_dir(through(directory))? {
            let entry = entry?;
            let Some(left) = self.left.checked_sub(1) else { return Ok((names, false)) };
            self.left = left;
            // One that has gone meanwhile is none.
            let Ok(kind) = entry.file_type() else { continue };
            let sort = match kind {
                kind if kind.is_symlink() => Sort::Link,
                kind if kind.is_fifo() => Sort::Fifo,
                kind if self.refs && kind.is_file() && level.has_ref(&entry.file_name()) => Sort::Ref,
                _ => Sort::Other,
            };
            if sort != Sort::Other || kind.is_dir() || entry.file_name() == "HEAD" {
                names.push((entry.file_name(), sort));
            }
        }
        Ok((names, true))
    }
}

/// Directories from a git directory on, the last ones of them open: a command can make thousands of one another, and descriptors are
/// few.
pub struct Way {
    top: File,
    held: Vec<(PathBuf, File)>,
}

impl Way {
    /// From this directory on.
    pub fn from(top: &File) -> io::Result<Self> {
        Ok(Self { top: top.try_clone()?, held: Vec::new() })
    }

    /// The directory at a path from there, by no link.
    pub fn open(&mut self, path: &Path) -> io::Result<&File> {
        while self.held.last().is_some_and(|(above, _)| !path.starts_with(above)) {
            self.held.pop();
        }
        let mut at = self.held.last().map(|(above, _)| above.clone()).unwrap_or_default();
        let rest = path.strip_prefix(&at).unwrap_or(path).to_owned();
        for name in &rest {
            let directory = enter(self.held.last().map_or(&self.top, |(_, directory)| directory), name)?;
            at.push(name);
            if self.held.len() == HELD {
                self.held.remove(0);
            }
            self.held.push((at.clone(), directory));
        }
        Ok(self.held.last().map_or(&self.top, |(_, directory)| directory))
    }
}

impl Builder<'_> {
    /// Remembers which links are in a git directory that can be written.
    pub(super) fn links_in(&mut self, directory: &Path) {
        let Ok(opened) = open(directory) else { return };
        let mut known = Known::default();
        let mut found = |link: Link| drop(known.links.insert(link.path.to_owned(), link.text));
        let mut closed = |closed: &File, path: &Path| {
            if let Ok(data) = fs::metadata(through(closed)) {
                known.closed.insert(path.to_owned(), data.mode() & 0o7777);
            }
            false
        };
        let mut deep = BTreeSet::new();
        let mut deeper = |_: &File, path: &Path| {
            deep.insert(path.to_owned());
        };
        let apart = |_: &Path| true;
        let mut look = Look {
            left: BEFORE,
            refs: false,
            found: &mut found,
            closed: &mut closed,
            deep: &mut deeper,
            apart: &apart,
        };
        known.cut = look.through(&opened).unwrap_or_else(|_| BTreeSet::from([PathBuf::new()]));
        known.cut.extend(deep);
        if let Some(first) = known.cut.first() {
            self.warnings.push(format!(
                "there is too much in '{}' to know each link in it, so links that the command makes there are not looked for after the \
                 run: git on the host would write through them",
                directory.join(first).components().collect::<PathBuf>().display()
            ));
        }
        self.recognised.links.insert(directory.to_owned(), known);
    }
}
