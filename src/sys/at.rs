//! Directories that are reached without going through a link, and names in them that nothing can redirect.
//!
//! Changes nothing.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Component, Path};

use nix::fcntl::{self, openat};
use nix::sys::stat::Mode;

#[cfg(target_os = "linux")]
pub use super::system::at::place;
pub use super::system::at::{DIRECTORY, free, hold_fifo, name, through, unnamed};

/// The names in a path.
pub fn normal(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    })
}

/// The directory of this name in another one; a link is none.
pub fn enter(directory: &File, part: &OsStr) -> io::Result<File> {
    Ok(openat(directory, part, DIRECTORY, Mode::empty()).map(File::from)?)
}

/// The directory at the absolute `path`, if there is no link on the way to it.
pub fn open(path: &Path) -> io::Result<File> {
    let root = File::from(fcntl::open("/", DIRECTORY, Mode::empty())?);
    normal(path).try_fold(root, |directory, part| enter(&directory, part))
}
