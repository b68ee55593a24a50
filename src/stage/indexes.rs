//! Takes indexes away that the command has filled with what git would never write there, or with what git on the host would put in the
//! place of something that is kept.
//!
//! Goes through no link but one of the caller's, which is then what is taken away.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::aside::move_aside;
use crate::plan::Plan;
use crate::plan::git::compare::{Comparison, Wrong};
use crate::plan::git::kept::{self, Entries, Given, Places};
use crate::plan::git::seen::{self, Seen};
use crate::plan::git::{index, work_tree_of};
use crate::plan::hidden::list;
use crate::sys::at::{open, through};
use crate::sys::process::describe;

/// What all indexes of a run are compared with.
pub(super) struct Indexes<'a> {
    plan: &'a Plan,
    places: Places,
    none: Entries,
}

impl<'a> Indexes<'a> {
    /// Of git directories and data of worktrees, those among them that nobody knew before.
    pub(super) fn of(plan: &'a Plan, all: &[PathBuf]) -> Self {
        let trees = all.iter().filter_map(|directory| work_tree_of(directory));
        Self { plan, places: Places::of(&plan.rules, &plan.recognised, trees), none: Entries::default() }
    }

    fn before(&self, path: &Path) -> &Entries {
        self.plan.recognised.entries.get(path).unwrap_or(&self.none)
    }

    /// Those in a directory, as far as they are not what they were.
    pub(super) fn look(&self, directory: &Path, held: &File) {
        let looked = through(held);
        let none = Seen::new();
        let before = self.plan.recognised.seen.get(directory).unwrap_or(&none);
        let changed: Vec<_> =
            seen::indexes(&looked).into_iter().filter(|(name, stamp)| before.get(name) != Some(stamp)).collect();
        if changed.is_empty() {
            return;
        }
        let (rules, recognised) = (&self.plan.rules, &self.plan.recognised);
        let with = Comparison {
            kept: kept::kept_of(directory, work_tree_of(directory), &self.places, rules, recognised),
            before: self.before(directory),
            sha256: kept::names_by_sha256(directory, &looked),
            bases: &looked,
            rules,
        };
        // Names of one file have one content.
        let mut judged = BTreeMap::new();
        for (name, stamp) in changed {
            let verdict = judged.entry(stamp.place()).or_insert_with(|| judge(directory, held, &name, &with));
            if let Some(text) = verdict {
                move_aside(directory, held, &name, text);
            }
        }
    }

    /// One that the caller's environment names.
    pub(super) fn look_at_given(&self, given: &Given) {
        let now = seen::stamp(&given.path);
        let (Some(above), Some(name)) = (given.path.parent(), given.path.file_name()) else { return };
        if now.is_none() || now == given.stamp {
            return;
        }
        // What has gone has no files.
        let Ok(held) = open(above) else { return };
        if fs::symlink_metadata(&given.path).is_ok_and(|data| data.is_symlink()) {
            move_aside(
                above,
                &held,
                name,
                "is a link that was made during the run, where git on the host has its index",
            );
            return;
        }
        let with = Comparison {
            kept: kept::all_kept(&self.places, &self.plan.rules, &self.plan.recognised),
            before: self.before(&given.path),
            sha256: kept::names_by_sha256(&given.directory, &given.directory),
            bases: &given.directory,
            rules: &self.plan.rules,
        };
        if let Some(text) = judge(above, &held, name, &with) {
            move_aside(above, &held, name, &text);
        }
    }
}

/// What is wrong with an index.
fn judge(directory: &Path, held: &File, name: &OsStr, with: &Comparison) -> Option<String> {
    Some(match kept::open(&through(held).join(name)).and_then(|file| with.wrong(&file)) {
        Ok(Wrong { refused: None, emptied }) => {
            tell_of_emptied(&directory.join(name), &emptied);
            return None;
        }
        Ok(Wrong { refused: Some(name), emptied: _ }) => {
            format!("names '{}', which git on the host would write, read or delete", OsStr::from_bytes(&name).display())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => format!(
            "cannot be understood ({}), so nobody knows what git on the host would write or delete",
            told(&error)
        ),
    })
}

/// What the command has added without knowing it stays: it may be a part of a commit by now.
fn tell_of_emptied(index: &Path, emptied: &BTreeSet<PathBuf>) {
    if !emptied.is_empty() {
        tracing::warn!(
            "'{}' has hidden files as empty ones, as which the command saw them: git checkout on the host would empty what is there: {}",
            index.display(),
            list(emptied.iter().map(PathBuf::as_path))
        );
    }
}

fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => "it is malformed, or of an unknown version".into(),
        io::ErrorKind::FileTooLarge => format!("it is longer than {} MiB", index::LONGEST >> 20),
        _ => describe(error),
    }
}
