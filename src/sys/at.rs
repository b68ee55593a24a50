//! Directories that are reached without going through a link, and names in them that nothing can redirect.
//!
//! Changes nothing.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

const FLAGS: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// The names in a path.
pub fn normal(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    })
}

/// The directory of this name in another one; a link is none.
pub fn enter(directory: &File, part: &OsStr) -> io::Result<File> {
    Ok(openat(directory, part, FLAGS, Mode::empty()).map(File::from)?)
}

/// The directory at the absolute `path`, if there is no link on the way to it.
pub fn open(path: &Path) -> io::Result<File> {
    let root = OpenOptions::new().read(true).custom_flags(FLAGS.bits()).open("/")?;
    normal(path).try_fold(root, |directory, part| enter(&directory, part))
}

/// A path that leads to an open file, and nowhere else.
#[must_use]
pub fn through(file: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}
