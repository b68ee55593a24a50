//! Directories that a run makes on the host for its write grants, and their removal when nothing was started.
//!
//! Never removes what it has not made, nor what holds anything.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::plan::Create;
use crate::sys::process::describe;

/// What one call has made so far.
#[derive(Debug, Default)]
pub struct Made {
    directories: Vec<Directory>,
}

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// Device and inode: by the name alone it could be somebody else's.
    identity: (u64, u64),
}

impl Made {
    /// Makes a directory and what is missing on the way to it.
    pub fn make(&mut self, wanted: &Create) -> Result<()> {
        let missing: Vec<_> = wanted.path.ancestors().take_while(|path| path.starts_with(&wanted.first)).collect();
        for path in missing.into_iter().rev() {
            self.make_one(path).map_err(|error| {
                Error::text(
                    Kind::Policy,
                    format!("cannot make directory '{}' ({}): {}", path.display(), wanted.origin, describe(&error)),
                )
            })?;
            tracing::info!("directory '{}' ({}) is there now", path.display(), wanted.origin);
        }
        Ok(())
    }

    fn make_one(&mut self, path: &Path) -> io::Result<()> {
        let made = fs::create_dir(path);
        let found = fs::symlink_metadata(path);
        match (made, found) {
            (Ok(()), Ok(found)) => {
                self.directories.push(Directory { path: path.to_owned(), identity: (found.dev(), found.ino()) });
                Ok(())
            }
            // Another grant wants it too, or somebody was quicker.
            (Err(error), Ok(found)) if error.kind() == io::ErrorKind::AlreadyExists && found.is_dir() => Ok(()),
            (Err(error), _) | (Ok(()), Err(error)) => Err(error),
        }
    }

    /// Leaves everything where it is: the target has started.
    pub fn keep(&mut self) {
        self.directories.clear();
    }

    /// Removes what was made, as far as it is empty.
    pub fn take_back(self) {
        for Directory { path, identity } in self.directories.into_iter().rev() {
            let ours = fs::symlink_metadata(&path).is_ok_and(|found| (found.dev(), found.ino()) == identity);
            if ours && let Err(error) = fs::remove_dir(&path) {
                tracing::debug!("'{}' stays: {error}", path.display());
            }
        }
    }
}
