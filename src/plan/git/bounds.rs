//! How much is looked at for git: each directory once, and no more of them than a command can be waited for. Without a bound a command
//! makes repositories in repositories, and the next run looks at them for hours.
//!
//! Changes nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::build::Builder;
use super::super::heed;
use super::settings::Named;
use crate::error::{Error, Kind, Result};

/// So many git directories and data of worktrees can be in write grants: several times what the largest known trees of repositories have.
const MOST: usize = 5_000;

/// And so deep in a grant, where a project keeps to a dozen.
const DEEPEST: usize = 64;

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
    pub(super) given: Option<Named>,
}

impl Builder<'_> {
    /// Whether a git directory that can be written is still to be looked at.
    pub(super) fn is_new(&mut self, directory: &Path) -> bool {
        self.looked.directories.insert(directory.to_owned())
    }

    /// Counts one more directory of git's; an error where there are too many, or where it is too deep.
    pub(super) fn count(&mut self, directory: &Path) -> Result<()> {
        heed()?;
        self.looked.count += 1;
        let refused = |text: String| {
            let text = format!("cannot protect what git runs: {text}");
            Error::text(Kind::Policy, text).hint("a command may have made them: remove them if they are none of yours")
        };
        if self.looked.count > MOST {
            return Err(refused(format!(
                "there are more than {MOST} repositories and worktrees, and '{}' is not looked at",
                directory.display()
            )));
        }
        let below = self.view.write_grants().filter_map(|grant| directory.strip_prefix(grant).ok());
        let depth = below.map(|below| below.components().count()).min().unwrap_or(0);
        if depth > DEEPEST {
            return Err(refused(format!(
                "the repository '{}' is more than {DEEPEST} directories deep in a write grant",
                directory.display()
            )));
        }
        Ok(())
    }
}
