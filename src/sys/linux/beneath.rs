//! Opening what lies below an open directory and nowhere else: no link is followed, wherever it leads.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat};

/// `struct open_how`.
#[repr(C)]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

const NO_MAGICLINKS: u64 = 2;
const NO_SYMLINKS: u64 = 4;
const IN_ROOT: u64 = 16;

/// What `path`, absolute or not, is below `root`, as a place in the tree only. `ELOOP` or `ENOTDIR` where a link is on the way.
pub fn open(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let path = path.strip_prefix("/").unwrap_or(path);
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let opened = call(root.as_fd().as_raw_fd(), path, NO_MAGICLINKS | NO_SYMLINKS | IN_ROOT)?;
    opened.map_or_else(|| step_by_step(root, path), Ok)
}

/// The same for an absolute path in the file system as this process sees it.
pub fn open_absolute(path: &Path) -> io::Result<OwnedFd> {
    if let Some(opened) = call(libc::AT_FDCWD, path, NO_MAGICLINKS | NO_SYMLINKS)? {
        return Ok(opened);
    }
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = openat(nix::fcntl::AT_FDCWD, "/", flags, Mode::empty())?;
    step_by_step(root, path.strip_prefix("/").unwrap_or(path))
}

/// By one call; `None` where there is no such call: before Linux 5.6, and for some filters that know none of its age.
fn call(from: RawFd, path: &Path, resolve: u64) -> io::Result<Option<OwnedFd>> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // With O_NOFOLLOW a link in the last place would be opened as such.
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let how = How { flags: flags.bits().cast_unsigned().into(), mode: 0, resolve };
    // SAFETY: name and structure outlive the call, and the size is that of the structure.
    let opened =
        unsafe { libc::syscall(libc::SYS_openat2, from, name.as_ptr(), std::ptr::from_ref(&how), size_of::<How>()) };
    match Errno::result(opened) {
        Ok(number) => {
            let number = i32::try_from(number).map_err(io::Error::other)?;
            // SAFETY: the call just returned this descriptor, so it is open and ours alone.
            Ok(Some(unsafe { OwnedFd::from_raw_fd(number) }))
        }
        Err(Errno::ENOSYS | Errno::EPERM) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The same by one call for each part.
fn step_by_step(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let place = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut at = openat(&root, ".", place | OFlag::O_DIRECTORY, Mode::empty())?;
    let mut parts = path.components().filter(|part| *part != Component::CurDir).peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(Errno::EINVAL.into()) };
        let directory = if parts.peek().is_some() { OFlag::O_DIRECTORY } else { OFlag::empty() };
        at = openat(&at, name, place | directory, Mode::empty())?;
    }
    let kind = SFlag::from_bits_truncate(fstat(&at)?.st_mode) & SFlag::S_IFMT;
    if kind == SFlag::S_IFLNK { Err(Errno::ELOOP.into()) } else { Ok(at) }
}
