//! What cannot be looked at in a repository: it is protected whole, or nothing is started.
//!
//! The command may have closed it, to open it in the next run. Reads the host's files, changes none.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use super::super::build::Builder;
use super::super::closed;
use super::super::links::walk;
use super::super::view::FileKind;
use super::{Unclear, way_in};
use crate::error::{Error, Kind, Result};
use crate::sys::process::describe;

/// Why something that git obeys cannot be protected.
pub(super) fn unsure(path: &Path, error: &io::Error, closed: &Path) -> Error {
    Error::text(
        Kind::Policy,
        format!("cannot protect what git runs: cannot look at '{}': {}", path.display(), describe(error)),
    )
    .hint(format!("chmod u+rwX '{}' opens it", closed.display()))
}

/// What has this name; not to know is an error.
pub(super) fn known(path: &Path) -> Result<Option<Metadata>> {
    closed::look(path).map_err(|error| unsure(path, &error, path.parent().unwrap_or(path)))
}

impl Builder<'_> {
    /// Whether names in `directory` can be looked at. If not, it is protected as a whole.
    pub(super) fn opens(&mut self, directory: &Path) -> Result<bool> {
        if !self.view.writable(directory) {
            return Ok(true);
        }
        let Some(data) = known(directory)?.filter(Metadata::is_dir) else { return Ok(true) };
        match closed::enter(directory, &data) {
            Ok(()) => Ok(true),
            Err(error) => self.shut(directory, &error).map(|()| false),
        }
    }

    /// Directories in `directory`, by name.
    pub(super) fn entries(&mut self, directory: &Path) -> Result<Vec<PathBuf>> {
        if !self.view.writable(directory) || !self.opens(directory)? {
            return Ok(Vec::new());
        }
        match closed::there(directories(directory)) {
            Ok(paths) => Ok(paths.unwrap_or_default()),
            Err(error) => self.shut(directory, &error).map(|()| Vec::new()),
        }
    }

    /// Makes `directory` read-only, with all that is in it.
    fn shut(&mut self, directory: &Path, error: &io::Error) -> Result<()> {
        let ours = known(directory)?.as_ref().is_some_and(closed::is_ours);
        if self.is_granted(directory) && ours {
            return Err(unsure(directory, error, directory));
        }
        self.protect_from_git(directory, FileKind::Directory);
        // Of another's nothing could be opened anyway.
        if ours {
            self.warnings.push(format!(
                "what git runs in '{0}' cannot be looked for ({1}), so nothing in it can be written: chmod u+rwx '{0}' opens it",
                directory.display(),
                describe(error)
            ));
        }
        Ok(())
    }

    /// The directory that a file names behind `prefix`. What is closed on the way is protected.
    pub(super) fn named_in(&mut self, file: &Path, prefix: &str) -> Result<Option<PathBuf>> {
        let way = match way_in(file, prefix) {
            Ok(found) => {
                let Some(found) = found.filter(|found| found.metadata.is_dir()) else { return Ok(None) };
                self.no_link_to(&found.links, &found.end)?;
                return Ok(Some(found.end));
            }
            // Nothing can be written that it could name.
            Err(_) if self.view.write_grants().next().is_none() => return Ok(None),
            Err(Unclear::File(error)) => match closed::look(file) {
                Ok(data) if data.as_ref().is_some_and(closed::is_ours) => return Err(unsure(file, &error, file)),
                Ok(_) => return Ok(None),
                Err(_) => file.to_owned(),
            },
            Err(Unclear::Way(way)) => way,
        };
        if let Some(found) = way.ancestors().skip(1).find_map(|part| walk(part).ok()) {
            self.opens(&found.end)?;
        }
        Ok(None)
    }
}

pub(super) fn directories(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if closed::there(entry.file_type())?.is_some_and(|kind| kind.is_dir()) {
            paths.push(entry.path());
        }
    }
    paths.sort_unstable();
    Ok(paths)
}
