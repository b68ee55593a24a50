//! What control groups take beside files: an event counter and extended attributes.

use std::ffi::CStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

/// A counter that the kernel adds to and a poll wakes on; it never blocks and does not cross an exec.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: eventfd takes two integers.
    let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if number == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor, so it is open and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Whether `path` has an extended attribute of this name, with this value.
#[must_use]
pub fn has_attribute(path: &Path, name: &CStr, value: &[u8]) -> bool {
    let Some(path) = crate::sys::process::c_string(path.as_os_str()) else { return false };
    let mut found = [0_u8; 16];
    // SAFETY: both names end in NUL, and the kernel writes no more than the length that it is told.
    let length = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), found.as_mut_ptr().cast(), found.len()) };
    usize::try_from(length).ok().and_then(|length| found.get(..length)) == Some(value)
}
