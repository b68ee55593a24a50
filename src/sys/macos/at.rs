//! Directories and files by descriptor.
//!
//! There is no path through a descriptor: the name that the file has now stands for it. Who could rename directories meanwhile
//! is gone when this is used.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

/// How a directory is opened of which only the place counts. One that is closed to us cannot be.
pub const DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// A path that leads to what is open, as long as that keeps its name; without one a path that leads nowhere.
#[must_use]
pub fn through(open: impl AsFd) -> PathBuf {
    name(&open).unwrap_or_else(|| Path::new("/dev/null").join(open.as_fd().as_raw_fd().to_string()))
}

/// The name that what is open has now, if it has one.
#[must_use]
pub fn name(open: impl AsFd) -> Option<PathBuf> {
    let mut path = [0_u8; libc::PATH_MAX as usize];
    // SAFETY: F_GETPATH writes at most PATH_MAX bytes, for which there is room.
    let found = unsafe { libc::fcntl(open.as_fd().as_raw_fd(), libc::F_GETPATH, path.as_mut_ptr()) };
    let name = CStr::from_bytes_until_nul(&path).ok().filter(|_| found != -1)?;
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// Refused: nothing holds a FIFO without opening one of its ends.
pub fn hold_fifo(_: &Path) -> nix::Result<OwnedFd> {
    Err(Errno::ENOTSUP)
}

/// Takes away marks that keep a file from being removed, be it a link.
pub fn free(path: &Path) -> io::Result<()> {
    let path = crate::sys::process::c_string(path.as_os_str()).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: the name ends in NUL.
    if unsafe { libc::lchflags(path.as_ptr(), 0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// There are no files without a name.
pub fn unnamed(_: impl AsFd, _: &OsStr, _: Mode) -> nix::Result<OwnedFd> {
    Err(Errno::EOPNOTSUPP)
}
