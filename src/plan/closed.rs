//! Looks at names of which only those count as missing that are: whatever else keeps us from a look may be taken away again.
//!
//! The owner of a directory can close it in one run and open it in the next, from inside a write grant. Changes nothing.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{AccessFlags, access, getegid, geteuid};

use crate::sys::process::groups;

/// Whether an error says that there is nothing of this name.
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// What has the name `path`, `None` when nothing has it.
pub(super) fn look(path: &Path) -> io::Result<Option<Metadata>> {
    there(fs::symlink_metadata(path))
}

/// Makes `None` of an error that says that there is no such thing.
pub fn there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether its owner runs the command, who alone could change its mode.
pub(super) fn is_ours(data: &Metadata) -> bool {
    data.uid() == geteuid().as_raw()
}

/// Whether names in a directory can be reached inside, where root is not above permissions.
pub(super) fn enter(directory: &Path, data: &Metadata) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(access(directory, AccessFlags::X_OK)?);
    }
    let ours =
        |group| group == getegid().as_raw() || groups().is_ok_and(|all| all.iter().any(|one| one.as_raw() == group));
    let bit = match (data.uid(), data.gid()) {
        (0, _) => 0o100,
        (_, group) if ours(group) => 0o010,
        _ => 0o001,
    };
    if data.mode() & bit == 0 { Err(io::Error::from_raw_os_error(libc::EACCES)) } else { Ok(()) }
}
