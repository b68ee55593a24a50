//! The way that a path takes: each name met on it, and what is at its end.
//!
//! Opens nothing. Whoever can give one of these names to something else decides what a later reader of the path finds.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};

/// The most links that are followed, as in the kernel.
const MAX_LINKS: u32 = 40;

/// Permission bits of a directory in which everybody can make files and remove only his own.
const SHARED: u32 = 0o1002;

/// Where a path leads, and how.
#[derive(Debug)]
pub struct Way {
    /// The directories and links on it, in order. Each is absolute, with no link before its last part.
    pub met: Vec<Met>,
    /// The last directory, without links.
    pub directory: PathBuf,
    /// The last part.
    pub name: OsString,
    /// What has that name, if anything has; neither a link nor a directory.
    pub found: Option<Metadata>,
    /// The descriptor of this process that the name stands for: `/dev/stdout` and the like. Opening it anew would be another
    /// open file, at its beginning.
    pub descriptor: Option<RawFd>,
}

/// A name on the way.
#[derive(Debug)]
pub struct Met {
    /// Where it is.
    pub at: PathBuf,
    /// Whether it is a link.
    pub link: bool,
    /// Whether it is a link that somebody with the rights of this process can have made, an earlier command among others.
    pub loose: bool,
}

impl Way {
    /// Follows the absolute `path`, whose last part need not exist.
    pub fn follow(path: &Path) -> io::Result<Self> {
        let text = path.as_os_str().as_bytes();
        if text.ends_with(b"/") || text.ends_with(b"/.") {
            return Err(Errno::EISDIR.into());
        }
        let descriptors = fs::canonicalize(crate::sys::fd::NAMES).ok();
        let mut todo = reversed(path);
        let mut directory = PathBuf::from("/");
        let mut met = Vec::new();
        let mut links = 0;
        while let Some(name) = todo.pop() {
            if name == ".." {
                directory.pop();
                continue;
            }
            let last = todo.is_empty();
            if last
                && Some(&directory) == descriptors.as_ref()
                && let Some(number) = name.to_str().and_then(|name| name.parse().ok())
            {
                return Ok(Self { met, directory, name, found: None, descriptor: Some(number) });
            }
            let at = directory.join(&name);
            let found = match fs::symlink_metadata(&at) {
                Ok(found) => found,
                Err(error) if last && error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Self { met, directory, name, found: None, descriptor: None });
                }
                Err(error) => return Err(error),
            };
            if !found.is_dir() {
                refuse_planted(&directory, &found)?;
            }
            if found.is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::ELOOP.into());
                }
                let loose = is_loose(&directory);
                if last && loose {
                    return Err(io::Error::other(
                        "it is a link, which an earlier command may have made; name the file that it leads to",
                    ));
                }
                let text = fs::read_link(&at)?;
                if text.is_absolute() {
                    directory = PathBuf::from("/");
                }
                todo.extend(reversed(&text));
                met.push(Met { at, link: true, loose });
            } else if found.is_dir() {
                directory.clone_from(&at);
                met.push(Met { at, link: false, loose: false });
            } else if last {
                return Ok(Self { met, directory, name, found: Some(found), descriptor: None });
            } else {
                return Err(Errno::ENOTDIR.into());
            }
        }
        Err(Errno::EISDIR.into())
    }

    /// The first link on it that an earlier command may have made.
    pub fn detour(&self) -> Option<&Path> {
        self.met.iter().find(|met| met.loose).map(|met| met.at.as_path())
    }

    /// The end: absolute, without links.
    pub fn end(&self) -> PathBuf {
        self.directory.join(&self.name)
    }
}

/// Whether a link in `directory` can have been made with the rights of this process.
fn is_loose(directory: &Path) -> bool {
    // Root can make one anywhere; these are the system's.
    let system = [Path::new("/"), Path::new("/dev")].contains(&directory) || directory.starts_with("/proc");
    let owned = || fs::metadata(directory).is_ok_and(|found| found.uid() == nix::unistd::geteuid().as_raw());
    !system && (owned() || faccessat(AT_FDCWD, directory, AccessFlags::W_OK, AtFlags::AT_EACCESS).is_ok())
}

/// Refuses what somebody else left in a directory for everybody, where he could foresee the name. As the kernel does
/// (`protected_symlinks` and the like, proc(5)), whether it is told to or not.
fn refuse_planted(directory: &Path, found: &Metadata) -> io::Result<()> {
    let around = fs::symlink_metadata(directory)?;
    let trusted = [nix::unistd::geteuid().as_raw(), around.uid()].contains(&found.uid());
    if trusted || around.mode() & SHARED != SHARED {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{} in '{}', where everybody can make files, is another user's",
        if found.is_symlink() { "a link" } else { "the file" },
        directory.display()
    )))
}

/// The names of `path` with the first one last; `.` and the root are left out.
fn reversed(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    parts.rev().map(|part| part.as_os_str().to_owned()).collect()
}
