//! Repositories around a write grant: git on the host obeys what their settings name, also where nothing else of them is shown.
//!
//! Shows nothing of them. Reads the host's files, changes none.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::build::Builder;
use super::super::links::walk;
use super::family::{Look, Role};
use super::{COMMON, GITDIR, given, looks_like_git_directory};
use crate::error::Result;

impl Builder<'_> {
    /// Protects what is named in write grants by settings of repositories above them, and by the user's own where there is none.
    pub(in crate::plan) fn repositories_around(&mut self) -> Result<()> {
        let grants: Vec<_> = self.view.write_grants().map(Path::to_owned).collect();
        if grants.is_empty() {
            return Ok(());
        }
        let places: BTreeSet<_> = grants.iter().flat_map(|grant| grant.ancestors().skip(1)).collect();
        for place in places {
            // What can be written is looked at as what lies in a grant.
            if !self.view.writable(place) {
                self.settings_of(place)?;
            }
        }
        self.repository_given()?;
        // A HOME that is not there has no settings, and links that lead nowhere are no reason to refuse a run without repositories.
        if self.host.home.as_deref().is_some_and(|home| walk(home).is_err()) {
            return Ok(());
        }
        // Paths that count from a work tree have been looked at with each.
        self.named_by(&[], Path::new("/"))
    }

    /// The repository whose work tree is at `place`, or which is that itself.
    fn settings_of(&mut self, place: &Path) -> Result<()> {
        if looks_like_git_directory(place) {
            self.settings_in(place, None, place)?;
        }
        let dot_git = place.join(".git");
        // What is somebody else's to look at names nothing of ours.
        let Ok(data) = fs::metadata(&dot_git) else { return Ok(()) };
        if data.is_dir() {
            let Ok(found) = walk(&dot_git) else { return Ok(()) };
            self.top_of(&found.end, place);
            return self.settings_in(&found.end, None, place);
        }
        let Some(own) = self.named_in(&dot_git, GITDIR)? else { return Ok(()) };
        self.top_of(&own, place);
        let common = self.named_in(&own.join(COMMON), "")?;
        self.settings_in(common.as_deref().unwrap_or(&own), common.is_some().then_some(&own), place)
    }

    /// Those in a git directory, in the data `own` of a worktree for the one at `place`, and in the data of all its worktrees and
    /// submodules, wherever they are checked out.
    pub(super) fn settings_in(&mut self, directory: &Path, own: Option<&PathBuf>, place: &Path) -> Result<()> {
        self.count(directory)?;
        let directories: Vec<_> = std::iter::once(directory).chain(own.map(PathBuf::as_path)).collect();
        self.named_by(&directories, place)?;
        self.family(directory, directory, Role::Repository, Look::Read)
    }

    /// What the caller's environment names as the repository.
    fn repository_given(&mut self) -> Result<()> {
        let [own, common] = given::directories(self.host);
        let top = given::worktree(self.host).or_else(|| self.host.cwd.as_ref().ok().cloned());
        let (Some(own), Some(top)) = (own.or_else(|| common.clone()), top) else { return Ok(()) };
        self.top_of(&own, &top);
        let common = match common {
            Some(common) => Some(common),
            None => self.named_in(&own.join(COMMON), "")?,
        };
        self.settings_in(common.as_deref().unwrap_or(&own), common.is_some().then_some(&own), &top)
    }
}
