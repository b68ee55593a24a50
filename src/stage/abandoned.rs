//! Directories of runs, which are left behind when every process of a run is killed: known by a lock, and by nothing else.
//!
//! Removes nothing.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

/// The directory with a lock on it that the kernel releases with the last process that has it: that of a run, which several have,
/// or that of who removes it; `None` when it is gone, or is a run's.
pub(super) fn hold(path: &Path, run: bool) -> io::Result<Option<OwnedFd>> {
    let open = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    match OpenOptions::new().read(true).custom_flags(open.bits()).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        directory => lock(directory?, path, run),
    }
}

pub(super) fn lock(directory: File, path: &Path, run: bool) -> io::Result<Option<OwnedFd>> {
    if run {
        directory.lock_shared()?;
    } else {
        match directory.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            locked => locked?,
        }
    }
    // Whoever had the lock before has removed it, if it was left behind.
    let same = |found: &fs::Metadata, own: &fs::Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => Ok(same(&found?, &directory.metadata()?).then(|| directory.into())),
    }
}

/// The directories in `place` that are named `prefix` and 32 digits and that no process of their run holds any more, each with a
/// lock: while that is held, nobody else takes it for one.
pub(super) fn abandoned(place: &Path, prefix: &str) -> impl Iterator<Item = (PathBuf, OwnedFd)> {
    let own = move |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name
            .strip_prefix(prefix)
            .is_some_and(|number| number.len() == 32 && number.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let is_ours = |found: fs::Metadata| found.is_dir() && found.uid() == geteuid().as_raw();
        number && fs::symlink_metadata(path).is_ok_and(is_ours)
    };
    let paths = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path()).filter(own);
    paths.filter_map(|path| Some((path.clone(), hold(&path, false).ok()??)))
}
