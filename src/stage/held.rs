//! Names that nothing can redirect, what is done to them, and directories of which the command has kept their owner out.
//!
//! Never goes through a link.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::plan::git::strays::ASIDE;
use crate::sys::at::{enter, open, through};

/// Does something in a directory; where that is denied, once more while its owner has all rights to it. Its permissions are what they
/// were afterwards, or `before`.
pub(super) fn let_in<T>(
    directory: &File,
    before: Option<u32>,
    mut action: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let denied = match action() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
        other => return other,
    };
    let path = through(directory);
    let mode = fs::metadata(&path)?.mode() & 0o7777;
    // Where this fails the directory is somebody else's, and so is the reason.
    if mode & 0o700 == 0o700 || fs::set_permissions(&path, Permissions::from_mode(mode | 0o700)).is_err() {
        return Err(denied);
    }
    let result = action();
    if let Err(error) = fs::set_permissions(&path, Permissions::from_mode(before.unwrap_or(mode))) {
        tracing::debug!("a directory keeps its owner's permissions: {error}");
    }
    result
}

/// A file under a name that nothing can redirect any more.
pub(super) struct Held {
    /// Valid as long as this lives.
    pub(super) path: PathBuf,
    pub(super) directory: File,
}

impl Held {
    /// The file at the absolute `path`, if there is no link on the way to it.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok(Self::in_directory(open(parent)?, name))
    }

    pub(super) fn in_directory(directory: File, name: &OsStr) -> Self {
        Self { path: through(&directory).join(name), directory }
    }

    /// Gives it a name that git does not know, and says which. No name that somebody could foresee and take, nor a long one.
    pub(super) fn rename(&self, name: &OsStr) -> io::Result<PathBuf> {
        self.rename_into(&self.directory, name)
    }

    /// Gives the directory that it is the name `name` in another directory, even out of a closed one, and where itself is closed: `..`
    /// of it changes.
    pub(super) fn rename_to(&self, directory: &File, name: &OsStr) -> io::Result<()> {
        let new = through(directory).join(name);
        let_in(&self.directory, None, || {
            let moved = enter(&self.directory, self.path.file_name().unwrap_or_default())?;
            let_in(&moved, None, || fs::rename(&self.path, &new))
        })
    }

    /// As [`Self::rename`], in another directory.
    pub(super) fn rename_into(&self, directory: &File, name: &OsStr) -> io::Result<PathBuf> {
        let mut random = [0_u8; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let mut new = if name.len() <= LONG { name.to_owned() } else { OsString::new() };
        new.push(format!("{ASIDE}{}", u64::from_ne_bytes(random)));
        fs::rename(&self.path, through(directory).join(&new))?;
        Ok(new.into())
    }

    /// Makes it nothing that git would obey where it has to keep its name, as on a full disk: needs no room. Says how.
    pub(super) fn disarm(&self, name: &OsStr) -> io::Result<&'static str> {
        if !fs::symlink_metadata(&self.path)?.is_dir() {
            fs::remove_file(&self.path)?;
            return Ok("removed");
        }
        let inner = enter(&self.directory, name)?;
        fs::set_permissions(through(&inner), Permissions::from_mode(0o0))?;
        // Root is above permissions.
        if geteuid().is_root() {
            for entry in fs::read_dir(through(&inner))? {
                let entry = entry?;
                if !entry.file_type()?.is_dir() {
                    fs::remove_file(entry.path())?;
                }
            }
            return Ok("emptied");
        }
        Ok("closed to everybody")
    }
}

/// Longer names are not kept as a part of the new one: most file systems end at 255 bytes, some at 143.
const LONG: usize = 100;
