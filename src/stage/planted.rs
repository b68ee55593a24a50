//! Takes files of git's own away, in git directories, that the command has filled with what git would never write there: git on the
//! host believes them, and writes, reads and deletes what they name.
//!
//! Never goes through a link. What cannot be looked at, and was not there before, is taken away as well.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::aside::{move_aside, renamed, tell};
use super::indexes::Indexes;
use super::mend::is_gone;
use super::strays;
use crate::plan::git::family::{DEEPEST, Role};
use crate::plan::git::seen::{STASHES, stamp};
use crate::plan::git::strays::Way;
use crate::plan::git::{harmless, is_git_directory, rerere, way_to_data};
use crate::plan::links::{Walk, walk};
use crate::plan::{Absent, Plan, closed};
use crate::sys::at::{enter, open, through};
use crate::sys::process::describe;

/// So many new directories of worktrees and submodules are looked at in one repository.
const MOST: usize = 100_000;

/// So many of them are told of one by one.
const TOLD: usize = 20;

/// After repositories are whole again and links have gone.
pub fn take_away(plan: &Plan) {
    let mut all: Vec<PathBuf> = plan.recognised.seen.keys().cloned().collect();
    for top in plan.recognised.links.keys() {
        let looked = open(top).and_then(|held| New::of(plan, top, &held, &mut all).map(New::look));
        match looked {
            Err(error) if !is_gone(&error) => tracing::warn!(
                "'worktrees' and 'modules' in '{}' cannot be looked at ({}): git on the host would obey what the command has made there",
                top.display(),
                describe(&error)
            ),
            _ => {}
        }
    }
    let indexes = Indexes::of(plan, &all);
    // One after the other: a command can make more of them than there are descriptors.
    for directory in &all {
        match open(directory) {
            Ok(held) => {
                conflicts(directory, &held);
                stashes(plan, directory, &held);
                indexes.look(directory, &held);
            }
            // What has gone has no files.
            Err(error) if is_gone(&error) => {}
            Err(error) => tracing::warn!(
                "'{}' cannot be looked at ({}): git on the host would believe the index that the command has made there",
                directory.display(),
                describe(&error)
            ),
        }
    }
    for given in &plan.recognised.given {
        indexes.look_at_given(given);
    }
}

/// Data of work trees that nobody knew before the run, and git directories below.
struct New<'a> {
    plan: &'a Plan,
    /// The git directory that was known, where what is taken away goes.
    top: &'a Path,
    held: &'a File,
    way: Way,
    /// How many directories may still be looked at.
    left: usize,
    /// How many have been taken away.
    taken: usize,
    /// Data that may stay.
    found: &'a mut Vec<PathBuf>,
}

impl<'a> New<'a> {
    fn of(plan: &'a Plan, top: &'a Path, held: &'a File, found: &'a mut Vec<PathBuf>) -> io::Result<Self> {
        Ok(Self { plan, top, held, way: Way::from(held)?, left: MOST, taken: 0, found })
    }

    fn look(mut self) {
        // From the git directory on.
        let mut todo = Role::Repository.places(Path::new(""));
        while let Some((place, role)) = todo.pop() {
            if let Err(error) = self.each(&place, role, &mut todo) {
                self.unlooked(&place, &error);
            }
        }
        if self.taken > TOLD {
            tracing::warn!("so were {} more in '{}'", self.taken - TOLD, self.top.display());
        }
    }

    /// Looks at each directory in the one at `place`; adds where what belongs to them lies.
    fn each(&mut self, place: &Path, role: Role, todo: &mut Vec<(PathBuf, Role)>) -> io::Result<()> {
        let Some(above) = closed::there(self.way.open(place))? else { return Ok(()) };
        let above = above.try_clone()?;
        for entry in fs::read_dir(through(&above))? {
            let name = entry?.file_name();
            // No link, and not gone meanwhile.
            let Some(inner) = closed::there(enter(&above, &name))? else { continue };
            let path = place.join(&name);
            let known = self.is_known(&path);
            if !known {
                let Some(left) = self.left.checked_sub(1) else {
                    self.move_up(&path, &above, &format!("is one of more than {MOST} directories that are new there"));
                    continue;
                };
                self.left = left;
            }
            match role {
                Role::Repository | Role::Worktree => {
                    if known || self.worktree(&path, &above, &inner) {
                        todo.extend(Role::Worktree.places(&path));
                    }
                }
                Role::Module(depth) => todo.extend(self.module(&path, &above, &inner, depth, known)),
            }
        }
        Ok(())
    }

    /// Takes a directory away that cannot be looked at, if all in it is new.
    fn unlooked(&mut self, place: &Path, error: &io::Error) {
        let above = place.parent().filter(|_| !self.is_known(place));
        let above = above.and_then(|above| self.way.open(above).and_then(File::try_clone).ok());
        let why = describe(error);
        if let Some(above) = above {
            return self.move_up(place, &above, &format!("cannot be looked at ({why})"));
        }
        tracing::warn!(
            "not all of '{}' can be looked at ({why}): git on the host would obey what the command has made there",
            self.top.join(place).display()
        );
    }

    /// Whether the place at the end of `way` is the work tree of `data`, where the next run keeps it: what is there later, or nothing
    /// says is there, is anything.
    fn is_work_tree(&self, way: &Path, data: &Path) -> bool {
        let pinned = |found: &Walk| {
            let mut places = found.links.iter().filter_map(|link| link.at.parent());
            places.all(|above| !self.plan.rules.writable(above))
        };
        let Some(found) = walk(way).ok().filter(|found| found.metadata.is_dir() && pinned(found)) else { return false };
        let back = way_to_data(&found.end.join(".git")).filter(pinned);
        back.is_some_and(|back| back.end == data) && self.is_granted(&found.end)
    }

    /// Whether the command could write all that is at a place, which is nothing of git's.
    fn is_granted(&self, place: &Path) -> bool {
        let rules = &self.plan.rules;
        let missing = |absent: &Absent| {
            let path = absent.directory.join(&absent.name);
            !absent.links_only && (path.starts_with(place) || place.starts_with(&path))
        };
        let of_git = |below: &Path| below.iter().any(|name| name.eq_ignore_ascii_case(".git"));
        let grants: Vec<_> = self.plan.writable().filter_map(|grant| place.strip_prefix(grant).ok()).collect();
        let kept = |at: &Path| at.starts_with(place) && !rules.writable(at);
        !grants.is_empty()
            && !grants.into_iter().any(of_git)
            && rules.writable(place)
            && !rules.entries().any(|(at, _)| kept(at))
            && !self.plan.absent.iter().any(missing)
    }

    /// Whether it was there before the run, or something in it: it was looked at, or it was closed to us, and then nothing could be made
    /// in its place.
    fn is_known(&self, path: &Path) -> bool {
        let at = self.top.join(path);
        let mut seen = self.plan.recognised.seen.range(at.clone()..);
        seen.next().is_some_and(|(known, _)| known.starts_with(&at)) || !self.plan.rules.writable(&at)
    }

    /// Whether the data of a new worktree may stay.
    fn worktree(&mut self, path: &Path, above: &File, held: &File) -> bool {
        let at = self.top.join(path);
        if let Some(why) = harmless::in_worktree(&at, &through(held), &|way| self.is_work_tree(way, &at)) {
            self.move_up(path, above, &why);
            return false;
        }
        self.found.push(at);
        true
    }

    /// Where what belongs to a directory in `modules` lies.
    fn module(&mut self, path: &Path, above: &File, held: &File, depth: usize, known: bool) -> Vec<(PathBuf, Role)> {
        let at = self.top.join(path);
        let looked = through(held);
        if !known {
            for (name, why) in harmless::in_module(&at, &looked, &|way| self.is_work_tree(way, &at)) {
                self.tell(&at.join(name), &why, renamed(&at, held, OsStr::new(name)));
            }
            self.found.push(at.clone());
        }
        // One that was known is looked through for itself.
        let own = self.plan.recognised.links.contains_key(&at);
        match is_git_directory(&looked) {
            true if own => Vec::new(),
            true => Role::Repository.places(path),
            false if depth == DEEPEST && !known => {
                self.move_up(path, above, "is too deep for the name of a submodule");
                Vec::new()
            }
            false => Role::Module(depth).places(path),
        }
    }

    /// Takes away what git would find under any name that it has in the same place.
    fn move_up(&mut self, path: &Path, above: &File, why: &str) {
        let fate = strays::move_aside(self.held, above, path.file_name().unwrap_or_default());
        self.tell(&self.top.join(path), why, fate.map(|fate| format!("{fate} in '{}'", self.top.display())));
    }

    fn tell(&mut self, path: &Path, why: &str, fate: io::Result<String>) {
        self.taken += 1;
        if self.taken <= TOLD || fate.is_err() {
            tell(path, why, fate);
        }
    }
}

/// A list of files in conflict.
fn conflicts(directory: &Path, held: &File) {
    if let Some(why) = rerere::refused(directory, &through(held)) {
        let text = format!("{why}, so git on the host would read or write what it should not");
        move_aside(directory, held, OsStr::new(rerere::NAME), &text);
    }
}

/// A stash that waits for the end of a merge or rebase. It goes up, out of what git removes then: it can hold changes of the caller's.
fn stashes(plan: &Plan, directory: &Path, held: &File) {
    for (place, name, when) in STASHES {
        let path = directory.join(place).join(name);
        let now = stamp(&through(held).join(place).join(name));
        if now.is_none() || now.as_ref() == plan.recognised.stashes.get(&path) {
            continue;
        }
        let why = format!(
            "is new, so git on the host would put what the command chose into the work tree {when} \
             (git stash apply, with the commit in it, does that)"
        );
        let above = if place.is_empty() { held.try_clone() } else { enter(held, OsStr::new(place)) };
        let fate = above.and_then(|above| strays::move_aside(held, &above, OsStr::new(name)));
        tell(&path, &why, fate.map(|fate| format!("{fate} in '{}'", directory.display())));
    }
}
