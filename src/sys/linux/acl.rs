//! Access control lists of files, acl(5): the bytes that the kernel keeps, not what they say.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Which list of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Who may do what with it.
    Access,
    /// What is made in a directory begins with this one.
    Default,
}

impl List {
    fn name(self) -> &'static CStr {
        match self {
            Self::Access => c"system.posix_acl_access",
            Self::Default => c"system.posix_acl_default",
        }
    }
}

/// The list of what has this name, be it a link; `None` where it has no more than permission bits.
pub fn of(path: &Path, list: List) -> io::Result<Option<Vec<u8>>> {
    let path = crate::sys::process::c_string(path.as_os_str()).ok_or(io::ErrorKind::InvalidInput)?;
    // The most that the kernel takes for any attribute.
    let mut bytes = vec![0_u8; 64 << 10];
    let name = list.name().as_ptr();
    // SAFETY: both names end in NUL, and the kernel writes no more than the length that it is told.
    let length = unsafe { libc::lgetxattr(path.as_ptr(), name, bytes.as_mut_ptr().cast(), bytes.len()) };
    if let Ok(length) = usize::try_from(length) {
        bytes.truncate(length);
        return Ok(Some(bytes));
    }
    none_is_fine(io::Error::last_os_error()).map(|()| None)
}

/// Gives `file` this list, and the permission bits that follow from it.
pub fn set(file: &File, list: List, bytes: &[u8]) -> io::Result<()> {
    let (name, value) = (list.name().as_ptr(), bytes.as_ptr().cast());
    // SAFETY: the name ends in NUL, and the kernel reads no more than the length that it is told.
    let set = unsafe { libc::fsetxattr(file.as_raw_fd(), name, value, bytes.len(), 0) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the list away from `file`.
pub fn remove(file: &File, list: List) -> io::Result<()> {
    // SAFETY: the name ends in NUL.
    let removed = unsafe { libc::fremovexattr(file.as_raw_fd(), list.name().as_ptr()) };
    if removed == 0 { Ok(()) } else { none_is_fine(io::Error::last_os_error()) }
}

/// There is none, or can be none.
fn none_is_fine(error: io::Error) -> io::Result<()> {
    match error.raw_os_error() {
        Some(libc::ENODATA | libc::EOPNOTSUPP | libc::ENOSYS) => Ok(()),
        _ => Err(error),
    }
}
