//! Directories and files by descriptor.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

/// How a directory is opened of which only the place counts.
pub const DIRECTORY: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// A path that leads to what is open, and nowhere else.
#[must_use]
pub fn through(open: impl AsFd) -> PathBuf {
    PathBuf::from(super::fd::name(open.as_fd().as_raw_fd()))
}

/// The name that what is open has now, if it has one.
#[must_use]
pub fn name(open: impl AsFd) -> Option<PathBuf> {
    std::fs::read_link(through(open)).ok().filter(|name| name.is_absolute())
}

/// A hold on a FIFO that opens neither of its ends.
pub fn hold_fifo(path: &Path) -> nix::Result<OwnedFd> {
    open(path, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())
}

/// What is at `path` as a place in the tree only, whatever its kind and permissions. With `follow` a link leads on.
///
/// Not by the standard library, which takes this flag for a part of the access mode, and leaves it out, where musl is the C
/// library.
pub fn place(path: &Path, follow: bool) -> io::Result<File> {
    let mut flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    flags.set(OFlag::O_NOFOLLOW, !follow);
    Ok(open(path, flags, Mode::empty()).map(File::from)?)
}

/// Takes away marks that keep a file from being removed: here only root has them, and sets them for good.
pub fn free(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A new file in a directory that has no name yet. `EOPNOTSUPP`, `EISDIR` or `EINVAL` where there are no such files.
pub fn unnamed(above: impl AsFd, directory: &OsStr, mode: Mode) -> nix::Result<OwnedFd> {
    openat(above, directory, OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC, mode)
}
