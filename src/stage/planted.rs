//! Takes files of git's own away, in git directories, that the command has filled with what git would never write there: git on the
//! host believes them, and writes, reads and deletes what they name.
//!
//! Never goes through a link.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::held::{Held, let_in};
use super::strays;
use crate::plan::git::seen::{self, Seen};
use crate::plan::git::{DEEPEST, harmless, index, is_git_directory, is_sha256, rerere, way_to_data, work_tree_of};
use crate::plan::links::{Walk, walk};
use crate::plan::{Absent, Plan, closed};
use crate::sys::at::{enter, open, through};
use crate::sys::process::describe;

/// So many directories of worktrees and submodules are looked at in one repository.
const MOST: usize = 100_000;

/// After repositories are whole again and links have gone.
pub fn take_away(plan: &Plan) {
    let mut all: Vec<(PathBuf, File)> = Vec::new();
    for directory in plan.recognised.seen.keys() {
        // What has gone has no files.
        all.extend(open(directory).map(|held| (directory.clone(), held)));
    }
    for top in plan.recognised.links.keys() {
        let Ok(held) = open(top) else { continue };
        let looked = New { plan, top, held: &held, left: MOST, found: &mut all }.below(top, &held);
        if let Err(error) = looked.map_err(|error| describe(&error)) {
            tracing::warn!(
                "not all of 'worktrees' and 'modules' in '{}' can be looked at ({error}): git on the host would obey what the command has \
                 made there",
                top.display()
            );
        }
    }
    let kept = Kept::of(plan, &all);
    let none = Seen::new();
    for (directory, held) in &all {
        conflicts(directory, held);
        indexes(directory, held, plan.recognised.seen.get(directory).unwrap_or(&none), &kept);
    }
}

/// Directories that are to stay: above what is kept, and work trees. git takes them away for a file or a link that an index names in
/// their place.
struct Kept(BTreeSet<PathBuf>);

impl Kept {
    fn of(plan: &Plan, all: &[(PathBuf, File)]) -> Self {
        let above = |at: &Path| at.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>();
        let rules = plan.rules.entries().map(|(at, _)| at).filter(|at| !plan.rules.writable(at));
        let tops = all.iter().filter_map(|(directory, _)| work_tree_of(directory));
        let tops = tops.flat_map(|top| top.ancestors().map(Path::to_owned).collect::<Vec<_>>());
        Self(rules.flat_map(above).chain(tops).collect())
    }

    /// Their paths from `top`.
    fn below(&self, top: &Path) -> HashSet<&[u8]> {
        let all = self.0.range(top.to_owned()..).take_while(|path| path.starts_with(top));
        all.filter_map(|path| Some(path.strip_prefix(top).ok()?.as_os_str().as_bytes())).collect()
    }
}

/// Data of work trees that nobody knew before the run, and git directories below.
struct New<'a> {
    plan: &'a Plan,
    /// The git directory that was known, where what is listed goes.
    top: &'a Path,
    held: &'a File,
    /// How many directories may still be looked at.
    left: usize,
    /// Data that may stay.
    found: &'a mut Vec<(PathBuf, File)>,
}

impl New<'_> {
    /// In the git directory `at`.
    fn below(&mut self, at: &Path, held: &File) -> io::Result<()> {
        self.each(&at.join("worktrees"), held, |new, at, above, held| {
            new.worktree(at, above, held);
            Ok(())
        })?;
        self.modules(at, held, OsStr::new("modules"), 0)
    }

    fn modules(&mut self, at: &Path, held: &File, name: &OsStr, depth: usize) -> io::Result<()> {
        self.each(&at.join(name), held, |new, at, above, held| new.module(at, above, held, depth))
    }

    /// Each directory in the one at `place`, with that one.
    fn each(
        &mut self,
        place: &Path,
        held: &File,
        mut action: impl FnMut(&mut Self, &Path, &File, &File) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(above) = closed::there(enter(held, place.file_name().unwrap_or_default()))? else { return Ok(()) };
        for entry in fs::read_dir(through(&above))? {
            let name = entry?.file_name();
            // No link, and not gone meanwhile.
            let Some(inner) = closed::there(enter(&above, &name))? else { continue };
            self.left = self.left.checked_sub(1).ok_or(io::ErrorKind::QuotaExceeded)?;
            action(self, &place.join(&name), &above, &inner)?;
        }
        Ok(())
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

    /// Whether it was there before the run: it was looked at, or it was closed to us, and then nothing could be made in its place.
    fn is_known(&self, at: &Path) -> bool {
        self.plan.recognised.seen.contains_key(at) || !self.plan.rules.writable(at)
    }

    fn worktree(&mut self, at: &Path, above: &File, held: &File) {
        if self.is_known(at) {
            return;
        }
        match harmless::in_worktree(at, &through(held), &|way| self.is_work_tree(way, at)) {
            Some(why) => self.move_up(at, above, &why),
            None => self.found.extend(held.try_clone().map(|held| (at.to_owned(), held))),
        }
    }

    fn module(&mut self, at: &Path, above: &File, held: &File, depth: usize) -> io::Result<()> {
        let known = self.is_known(at);
        let path = through(held);
        if !known {
            for (name, why) in harmless::in_module(at, &path, &|way| self.is_work_tree(way, at)) {
                move_aside(at, held, OsStr::new(name), &why);
            }
            self.found.extend(held.try_clone().map(|held| (at.to_owned(), held)));
        }
        if is_git_directory(&path) {
            return if known { Ok(()) } else { self.below(at, held) };
        }
        if depth == DEEPEST {
            self.move_up(at, above, "is too deep for the name of a submodule");
            return Ok(());
        }
        let (Some(place), Some(name)) = (at.parent(), at.file_name()) else { return Ok(()) };
        self.modules(place, above, name, depth + 1)
    }

    /// Takes away what git would find under any name that it has in the same place.
    fn move_up(&self, at: &Path, above: &File, why: &str) {
        match strays::move_aside(self.held, above, at.file_name().unwrap_or_default()) {
            Ok(fate) => tracing::warn!("'{}' {why}: it is now {fate} in '{}'", at.display(), self.top.display()),
            Err(error) => tracing::warn!("'{}' {why}, and cannot be moved aside: {}", at.display(), describe(&error)),
        }
    }
}

/// What lies in the work tree, as far as it is not what it was.
fn indexes(directory: &Path, held: &File, before: &Seen, kept: &Kept) {
    let top = work_tree_of(directory);
    let kept = top.as_deref().map(|top| kept.below(top)).unwrap_or_default();
    let path = through(held);
    let now = seen::indexes(&path);
    let changed = now.into_iter().filter(|(name, stamp)| before.get(name) != Some(stamp));
    for (name, _) in changed {
        // The objects are named in the same way in all work trees.
        let common = if directory.parent().is_some_and(|above| above.ends_with("worktrees")) {
            path.join("../..")
        } else {
            path.clone()
        };
        let opened =
            OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path.join(&name));
        let text = match opened.and_then(|file| index::refused(&file, is_sha256(&common), &|name| kept.contains(name)))
        {
            Ok(None) => continue,
            Ok(Some(name)) => format!(
                "names '{}', which git on the host would write, read or delete",
                OsStr::from_bytes(&name).display()
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => format!(
                "cannot be understood ({}), so nobody knows what git on the host would write or delete",
                told(&error)
            ),
        };
        move_aside(directory, held, &name, &text);
    }
}

fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => "it is malformed, or of an unknown version".into(),
        io::ErrorKind::FileTooLarge => format!("it is longer than {} MiB", index::LONGEST >> 20),
        _ => describe(error),
    }
}

/// A list of files in conflict.
fn conflicts(directory: &Path, held: &File) {
    if let Some(why) = rerere::refused(directory, &through(held)) {
        let text = format!("{why}, so git on the host would read or write what it should not");
        move_aside(directory, held, OsStr::new(rerere::NAME), &text);
    }
}

/// Gives what has this name in `directory` another one, and says `why`.
fn move_aside(directory: &Path, held: &File, name: &OsStr, why: &str) {
    let path = directory.join(name);
    match renamed(directory, held, name) {
        Ok(fate) => tracing::warn!("'{}' {why}: it is now {fate}", path.display()),
        Err(error) => tracing::warn!("'{}' {why}, and cannot be moved aside: {}", path.display(), describe(&error)),
    }
}

fn renamed(directory: &Path, held: &File, name: &OsStr) -> io::Result<String> {
    let file = Held::in_directory(held.try_clone()?, name);
    match let_in(held, None, || file.rename(name)) {
        Ok(new) => Ok(format!("'{}'", directory.join(new).display())),
        // On a full disk.
        Err(_) => let_in(held, None, || file.disarm(name)).map(str::to_owned),
    }
}
