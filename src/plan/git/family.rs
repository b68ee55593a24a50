//! What belongs to a git directory: the data of its worktrees, and the git directories of submodules, of those worktrees as well. One
//! table for all who go through it: before the run, above a grant, and afterwards.
//!
//! Reads the host's files, changes none.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::build::Builder;
use super::super::heed;
use super::super::links::walk;
use super::places::work_tree;
use super::shut::directories;
use super::{OBEYED_IN_WORKTREE, is_git_directory, looks_like_git_directory, refuse};
use crate::error::{Error, Kind, Result};

/// How deep the names of submodules go.
pub const DEEPEST: usize = 32;

/// What a directory is to git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A git directory.
    Repository,
    /// The data of a linked worktree.
    Worktree,
    /// A directory in `modules`: a git directory, or as deep a part of a name that goes on.
    Module(usize),
}

impl Role {
    /// Where directories that belong to the one at `path` lie, and what they are.
    #[must_use]
    pub fn places(self, path: &Path) -> Vec<(PathBuf, Self)> {
        let modules = (path.join("modules"), Self::Module(0));
        match self {
            Self::Repository => vec![(path.join("worktrees"), Self::Worktree), modules],
            Self::Worktree => vec![modules],
            Self::Module(depth) => vec![(path.to_owned(), Self::Module(depth + 1))],
        }
    }
}

/// What a look at a family is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// To protect what is obeyed in it.
    Protect,
    /// To read its settings only.
    Read,
}

impl Builder<'_> {
    /// Looks at all that belongs to `at`, of the git directory `common`.
    pub(super) fn family(&mut self, common: &Path, at: &Path, role: Role, look: Look) -> Result<()> {
        for (place, role) in role.places(at) {
            if look == Look::Protect && !self.is_kept_place(at, &place)? {
                continue;
            }
            let members = match look {
                Look::Protect => self.entries(&place)?,
                // None where nobody may look.
                Look::Read => directories(&place).unwrap_or_default(),
            };
            for member in members {
                match role {
                    Role::Repository | Role::Worktree => self.worktree(common, &member, look)?,
                    Role::Module(depth) => self.module(&member, depth, look)?,
                }
            }
        }
        Ok(())
    }

    /// Whether members are looked for in the one at `place`, and not behind a link that can be given to another directory.
    fn is_kept_place(&self, at: &Path, place: &Path) -> Result<bool> {
        if !self.view.writable(at) || !fs::symlink_metadata(place).is_ok_and(|data| data.is_symlink()) {
            return Ok(true);
        }
        if self.is_granted(at) {
            return Ok(false);
        }
        let end = walk(place).map(|found| found.end).or_else(|_| fs::read_link(place)).unwrap_or_default();
        Err(refuse(place, &end).hint(format!("--write '{}' accepts that", at.display())))
    }

    fn worktree(&mut self, common: &Path, data: &Path, look: Look) -> Result<()> {
        self.count(data)?;
        if look == Look::Protect {
            self.see(data);
            self.obeyed(data, OBEYED_IN_WORKTREE)?;
            self.not_to_be_made(data, OBEYED_IN_WORKTREE);
            self.no_link_to_worktree(data);
        }
        // It may be out of sight, or gone.
        let top = work_tree(data).and_then(|top| walk(&top).ok()).map(|found| found.end);
        if let Some(top) = &top {
            self.top_of(data, top);
        }
        self.named_by(&[common, data], top.as_deref().unwrap_or(data))?;
        self.family(common, data, Role::Worktree, look)
    }

    fn module(&mut self, path: &Path, depth: usize, look: Look) -> Result<()> {
        if depth == DEEPEST {
            return Err(Error::text(
                Kind::Policy,
                format!("cannot protect what git runs: '{}' is too deep for the name of a submodule", path.display()),
            )
            .hint("a command may have made it: remove it if it is none of yours"));
        }
        heed()?;
        if looks_like_git_directory(path) {
            match look {
                Look::Protect => {
                    self.git_directory(path)?;
                    // It may be checked out nowhere.
                    self.named_by(&[path], path)?;
                    self.no_link_to_work_tree(path);
                }
                Look::Read => self.settings_in(path, None, path)?,
            }
        }
        // A name can go on below what somebody has given the look of a git directory.
        if is_git_directory(path) { Ok(()) } else { self.family(path, path, Role::Module(depth), look) }
    }
}
