//! Keeping the name of a result out of the target's hands, where it lies in a directory that the target can write.
//!
//! What has the name is mounted read-only on itself inside, so that nobody there can write, replace or remove it. A mount
//! needs a place: a name that is free is taken by an empty file of ours until the end. Writes no result.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, open};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::{FileStat, Mode, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::way::Way;
use crate::sys;
use crate::sys::at::through;

/// Room that is taken before the target can fill the disk, in bytes: enough for an object without output.
const ROOM: i64 = 16 << 10;

/// What has the name of a result from the start on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Whether we made it: then it is nothing without a result.
    pub made: bool,
    /// What has the name; `None` where it is free and stays so.
    pub before: Option<Version>,
}

/// A file with its content: whoever changes that changes the time, which nobody can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Device and inode.
    pub identity: (u64, u64),
    /// When it was last changed, in seconds and nanoseconds.
    pub time: (i64, i64),
}

impl Version {
    /// What has `name` in `directory` now.
    pub fn of(directory: impl AsFd, name: &OsStr) -> io::Result<Option<Self>> {
        match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found.into())),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl From<FileStat> for Version {
    fn from(found: FileStat) -> Self {
        Self { identity: sys::fd::identity(&found), time: (found.st_ctime, found.st_ctime_nsec) }
    }
}

impl Held {
    /// Removes what has `name` and is neither what it was at the start nor of any use; says whether the name is free now.
    ///
    /// For when no result can be written: what the target left there must not be taken for one.
    pub fn clear(&self, directory: impl AsFd, name: &OsStr) -> bool {
        let remove = || {
            let found = Version::of(&directory, name)?;
            if found.is_none() {
                return Ok(());
            }
            if !self.made && found == self.before {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Ok(unlinkat(&directory, name, UnlinkatFlags::NoRemoveDir)?)
        };
        insist(&directory, remove).is_ok()
    }
}

/// Does something in a directory whose permission bits the target may have taken away, if they are ours to give back.
pub fn insist(directory: impl AsFd, action: impl Fn() -> io::Result<()>) -> io::Result<()> {
    const NEEDED: u32 = 0o300;
    let first = action();
    let Err(error) = &first else { return first };
    // By its descriptor: a path could lead elsewhere by now.
    let open = through(&directory);
    let Ok(mode) = fs::metadata(&open).map(|found| found.mode() & 0o7777) else { return first };
    let closed = error.kind() == io::ErrorKind::PermissionDenied && mode & NEEDED != NEEDED;
    if !closed || fs::set_permissions(&open, Permissions::from_mode(mode | NEEDED)).is_err() {
        return first;
    }
    let second = action();
    let _back = fs::set_permissions(&open, Permissions::from_mode(mode));
    second
}

/// Does something that needs the directories on `way`, which the target may have closed; those are open meanwhile.
pub fn along(way: &Way, action: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let first = action();
    if !first.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        return first;
    }
    let mut opened = Vec::new();
    // From the top on: each can be reached when those above it are open.
    for met in way.met.iter().filter(|met| !met.link) {
        let Ok(directory) = open(&met.at, sys::at::DIRECTORY, Mode::empty()).map(File::from) else { break };
        let place = through(&directory);
        let mode = fs::metadata(&place).map_or(SEARCH, |found| found.mode() & 0o7777);
        // Something else by now is none of our business.
        let there = sys::at::name(&directory).is_some_and(|path| path == met.at);
        if there && mode & SEARCH == 0 && fs::set_permissions(&place, Permissions::from_mode(mode | SEARCH)).is_ok() {
            opened.push((directory, mode));
        }
    }
    let second = action();
    for (directory, mode) in opened.into_iter().rev() {
        let _back = fs::set_permissions(through(&directory), Permissions::from_mode(mode));
    }
    second
}

/// The bit that lets the owner of a directory reach what is in it.
const SEARCH: u32 = 0o100;

/// Takes room for a result where that can be had; without it only a full disk is an error at the end.
pub fn reserve(file: &File) {
    // More than the caller allows would be a signal to us, which the target would get.
    let allowed =
        getrlimit(Resource::RLIMIT_FSIZE).is_ok_and(|(soft, _)| i64::try_from(soft).map_or(true, |soft| soft >= ROOM));
    if allowed {
        let _taken = sys::fd::reserve(file, ROOM);
    }
}
