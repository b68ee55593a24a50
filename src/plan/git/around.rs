//! Repositories around a write grant: git on the host obeys what their settings name, also where nothing else of them is shown.
//!
//! Shows nothing of them. Reads the host's files, changes none.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::build::Builder;
use super::super::links::walk;
use super::{COMMON, GITDIR, looks_like_git_directory};
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
        // Paths that count from a work tree have been looked at with each.
        self.named_by(&[], Path::new("/"))
    }

    /// The repository whose work tree is at `place`, or which is that itself.
    fn settings_of(&mut self, place: &Path) -> Result<()> {
        if looks_like_git_directory(place) {
            self.named_by(&[place], place)?;
        }
        let dot_git = place.join(".git");
        // What is somebody else's to look at names nothing of ours.
        let Ok(data) = fs::metadata(&dot_git) else { return Ok(()) };
        let mut directories: Vec<PathBuf> = Vec::new();
        if data.is_dir() {
            directories.extend(walk(&dot_git).map(|found| found.end));
        } else if let Some(own) = self.named_in(&dot_git, GITDIR)? {
            directories.extend(self.named_in(&own.join(COMMON), "")?);
            directories.push(own);
        }
        let directories: Vec<_> = directories.iter().map(PathBuf::as_path).collect();
        self.named_by(&directories, place)
    }
}
