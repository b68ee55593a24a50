//! Symbolic links in a git directory: git on the host writes through them and deletes behind them.
//!
//! Follows none, and goes by descriptors. Changes nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::super::build::Builder;
use crate::sys::at::{enter, open, through};

/// So many names are looked at in a git directory before the run.
const BEFORE: usize = 250_000;

/// And after it: the command may have made some.
pub const AFTER: usize = 4 * BEFORE;

/// Nothing of git's own is deeper, but for names of branches.
const DEEPEST: usize = 32;

/// Links that were in a git directory before the run.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Their texts, by paths from the git directory.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Whether these are all; otherwise those at the top.
    pub all: bool,
}

/// A symbolic link.
#[derive(Debug)]
pub struct Link<'a> {
    /// What it lies in.
    pub directory: &'a File,
    /// Its name there.
    pub name: &'a OsStr,
    /// From the git directory.
    pub path: &'a Path,
    /// Where it leads.
    pub text: PathBuf,
}

/// How a directory is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// A git directory.
    Top,
    /// Its names, and all that is below.
    Deep,
    /// Its names.
    Flat,
    /// `objects`: of millions of them the directories do.
    Objects,
    /// What holds git directories of submodules, which are known as such.
    Modules,
}

impl Level {
    /// How directories in one are looked at, the likely ones first; `None` for those that are not.
    fn of(self, name: &OsStr) -> Option<(u8, Self)> {
        let name = name.to_str().unwrap_or_default();
        match (self, name) {
            (Self::Flat, _) | (Self::Top, "hooks") => None,
            (Self::Top, "objects") => Some((0, Self::Objects)),
            (Self::Top, "modules") | (Self::Modules, _) => Some((0, Self::Modules)),
            (Self::Top, "info" | "refs" | "worktrees") | (Self::Objects, "info") | (Self::Deep, _) => {
                Some((0, Self::Deep))
            }
            (Self::Top, "logs") => Some((1, Self::Deep)),
            // What others keep there can be large.
            (Self::Top, "lfs" | "annex") => Some((2, Self::Flat)),
            (Self::Top, _) => Some((3, Self::Deep)),
            (Self::Objects, "pack") => Some((0, Self::Flat)),
            (Self::Objects, _) => None,
        }
    }
}

/// A look through a git directory.
pub struct Look<'a> {
    /// How many names more.
    pub left: usize,
    /// Called for every link.
    pub found: &'a mut dyn FnMut(Link),
    /// Called for a directory that cannot be looked at; whether another attempt makes sense.
    pub closed: &'a mut dyn FnMut(&File, &Path) -> bool,
}

impl Look<'_> {
    /// Whether everything was looked at.
    pub fn through(&mut self, directory: &File) -> bool {
        self.level(directory, Path::new(""), Level::Top, 0)
    }

    fn level(&mut self, directory: &File, at: &Path, level: Level, depth: usize) -> bool {
        let read = match self.names(directory) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && (self.closed)(directory, at) => {
                self.names(directory)
            }
            read => read,
        };
        // Gone, or nothing that we could do anything about.
        let Ok((names, mut all)) = read else { return true };
        let has = |name: &str| names.iter().any(|(one, _)| one == name);
        if level == Level::Modules && has("HEAD") && has("objects") {
            return all;
        }
        let mut below = Vec::new();
        for (name, is_link) in &names {
            if *is_link {
                if let Ok(text) = fs::read_link(through(directory).join(name)) {
                    (self.found)(Link { directory, name, path: &at.join(name), text });
                }
            } else if let Some((order, level)) = level.of(name) {
                below.push((order, name, level));
            }
        }
        below.sort_unstable_by_key(|(order, name, _)| (*order, *name));
        for (_, name, level) in below {
            if depth == DEEPEST {
                all = false;
            } else if let Ok(inner) = enter(directory, name) {
                all &= self.level(&inner, &at.join(name), level, depth + 1);
            }
        }
        all
    }

    /// Links and directories in a directory, by name, and whether these are all.
    fn names(&mut self, directory: &File) -> io::Result<(Vec<(OsString, bool)>, bool)> {
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
            if kind.is_symlink() || kind.is_dir() || entry.file_name() == "HEAD" {
                names.push((entry.file_name(), kind.is_symlink()));
            }
        }
        Ok((names, true))
    }
}

impl Builder<'_> {
    /// Remembers which links are in a git directory that can be written.
    pub(super) fn links_in(&mut self, directory: &Path) {
        let Ok(opened) = open(directory) else { return };
        let mut links = BTreeMap::new();
        let mut found = |link: Link| drop(links.insert(link.path.to_owned(), link.text));
        let mut look = Look { left: BEFORE, found: &mut found, closed: &mut |_, _| false };
        let all = look.through(&opened);
        if !all {
            self.notes.push(format!(
                "there is too much in '{}' to know each link in it, so only those at its top are looked for after the run",
                directory.display()
            ));
        }
        self.recognised.links.insert(directory.to_owned(), Known { links, all });
    }
}
