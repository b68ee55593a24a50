//! How much is looked at for git: each directory once, and no more of them than a command can be waited for. Without a bound a command
//! makes repositories in repositories, and the next run looks at them for hours.
//!
//! Changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::super::build::Builder;
use super::super::heed;
use super::super::links::walk;
use super::super::view::FileKind;
use super::given;
use super::settings::Named;
use crate::error::{Error, Kind, Result};

/// So many git directories and data of worktrees can be in write grants: several times what the largest known trees of repositories have.
const MOST: usize = 5_000;

/// And so deep in a grant, where a project keeps to a dozen.
const DEEPEST: usize = 64;

/// So many bytes of settings are read for all of them: a file can have many names, and holes that take no room.
const MOST_SETTINGS: u64 = 64 << 20;

/// And so many places that settings name are looked at.
const MOST_PLACES: usize = 50_000;

/// What has been looked at.
#[derive(Debug, Default)]
pub struct Looked {
    /// How many git directories and data of worktrees.
    count: usize,
    /// Git directories, where they can be written.
    directories: BTreeSet<PathBuf>,
    /// Settings: in which directories, for which work tree, and whether there they can be written.
    pub(super) settings: BTreeSet<(Vec<PathBuf>, PathBuf, bool)>,
    /// What the caller's environment and the machine say.
    given: Option<Rc<Named>>,
    /// What files of settings name: those of a repository are asked for with each of its worktrees.
    files: BTreeMap<PathBuf, Rc<Named>>,
    /// How long those are.
    length: u64,
    /// Places that settings name, each with what it is to be, whether it is around the work tree, and how many write grants there
    /// were: what is done about one depends on nothing else.
    places: BTreeSet<(PathBuf, bool, bool, usize)>,
}

impl Builder<'_> {
    /// Whether a git directory that can be written is still to be looked at.
    pub(super) fn is_new(&mut self, directory: &Path) -> bool {
        self.looked.directories.insert(directory.to_owned())
    }

    /// What the settings in these git directories name, and those that hold everywhere.
    pub(super) fn all_named(&mut self, directories: &[&Path]) -> Result<Vec<Rc<Named>>> {
        let files = directories.iter().flat_map(|path| ["config", "config.worktree"].map(|name| path.join(name)));
        let mut all = files.map(|file| self.named_in_file(&file)).collect::<Result<Vec<_>>>()?;
        let host = self.host;
        all.push(Rc::clone(self.looked.given.get_or_insert_with(|| given::settings(host).into())));
        Ok(all)
    }

    /// What a file of settings names.
    fn named_in_file(&mut self, file: &Path) -> Result<Rc<Named>> {
        if let Some(known) = self.looked.files.get(file) {
            return Ok(Rc::clone(known));
        }
        heed()?;
        let mut named = Named { left: MOST_SETTINGS - self.looked.length, ..Named::default() };
        named.add(file, self.host.home.as_deref(), 0);
        self.looked.length = MOST_SETTINGS - named.left;
        let named = Rc::new(named);
        self.looked.files.insert(file.to_owned(), Rc::clone(&named));
        Ok(named)
    }

    /// Whether a place that settings name for the work tree at `top` is still to be looked at.
    pub(super) fn is_new_place(&mut self, place: &Path, kind: FileKind, top: &Path) -> Result<bool> {
        heed()?;
        let directory = kind == FileKind::Directory;
        // Files have no work tree in them.
        let around = directory && walk(place).is_ok_and(|found| top.starts_with(found.end));
        let grants = self.view.write_grants().len();
        let new = self.looked.places.insert((place.to_owned(), directory, around, grants));
        if self.looked.places.len() > MOST_PLACES {
            return Err(refused(&format!(
                "settings name more than {MOST_PLACES} places, and '{}' is not looked at",
                place.display()
            )));
        }
        Ok(new)
    }

    /// Counts one more directory of git's; an error where there are too many, or where it is too deep.
    pub(super) fn count(&mut self, directory: &Path) -> Result<()> {
        heed()?;
        self.looked.count += 1;
        if self.looked.count > MOST {
            return Err(refused(&format!(
                "there are more than {MOST} repositories and worktrees, and '{}' is not looked at",
                directory.display()
            )));
        }
        let below = self.view.write_grants().filter_map(|grant| directory.strip_prefix(grant).ok());
        let depth = below.map(|below| below.components().count()).min().unwrap_or(0);
        if depth > DEEPEST {
            return Err(refused(&format!(
                "the repository '{}' is more than {DEEPEST} directories deep in a write grant",
                directory.display()
            )));
        }
        Ok(())
    }
}

fn refused(text: &str) -> Error {
    let text = format!("cannot protect what git runs: {text}");
    Error::text(Kind::Policy, text).hint("a command may have made them: remove them if they are none of yours")
}
