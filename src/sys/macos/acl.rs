//! Access control lists of files: whether there are any, and taking them away.
//!
//! A list is not carried over to another file, so one that has any is an error.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Which list of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Who may do what with it.
    Access,
    /// What is made in a directory begins with this one: never any, since the other says what is handed down.
    Default,
}

/// `ACL_TYPE_EXTENDED`, from sys/acl.h.
const EXTENDED: libc::c_uint = 0x100;

unsafe extern "C" {
    fn acl_get_link_np(path: *const libc::c_char, kind: libc::c_uint) -> *mut libc::c_void;
    fn acl_init(entries: libc::c_int) -> *mut libc::c_void;
    fn acl_set_fd_np(fd: libc::c_int, list: *mut libc::c_void, kind: libc::c_uint) -> libc::c_int;
    fn acl_free(list: *mut libc::c_void) -> libc::c_int;
}

/// The list of what has this name, be it a link; `None` where it has no more than permission bits.
pub fn of(path: &Path, list: List) -> io::Result<Option<Vec<u8>>> {
    if list == List::Default {
        return Ok(None);
    }
    let path = crate::sys::process::c_string(path.as_os_str()).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: the name ends in NUL.
    let list = unsafe { acl_get_link_np(path.as_ptr(), EXTENDED) };
    if list.is_null() {
        return none_is_fine(io::Error::last_os_error()).map(|()| None);
    }
    // SAFETY: made by the call above, and not used again.
    unsafe { acl_free(list) };
    Err(io::ErrorKind::Unsupported.into())
}

/// Gives `file` a list: of none here, so that nobody has one to give.
pub fn set(_: &File, _: List, _: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Takes the list away from `file`.
pub fn remove(file: &File, _: List) -> io::Result<()> {
    // SAFETY: takes an integer.
    let empty = unsafe { acl_init(0) };
    if empty.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the list was made by the call above.
    let set = unsafe { acl_set_fd_np(file.as_raw_fd(), empty, EXTENDED) };
    let error = io::Error::last_os_error();
    // SAFETY: made above, and not used again.
    unsafe { acl_free(empty) };
    if set == 0 { Ok(()) } else { none_is_fine(error) }
}

/// There is none, or can be none.
fn none_is_fine(error: io::Error) -> io::Result<()> {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTSUP) => Ok(()),
        _ => Err(error),
    }
}
