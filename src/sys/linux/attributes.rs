//! Extended attributes of files, by a path that leads to one file and nowhere else.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets one.
pub fn set(path: &Path, name: &[u8], value: &[u8], flags: i32) -> io::Result<()> {
    let (path, name) = (CString::new(path.as_os_str().as_bytes())?, CString::new(name)?);
    // SAFETY: both strings end with NUL and live until the call returns, and so does the value, whose length is told.
    done(unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags) })
}

/// Removes one.
pub fn remove(path: &Path, name: &[u8]) -> io::Result<()> {
    let (path, name) = (CString::new(path.as_os_str().as_bytes())?, CString::new(name)?);
    // SAFETY: both strings end with NUL and live until the call returns.
    done(unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) })
}
