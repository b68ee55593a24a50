//! What control groups take beside files: an event counter, extended attributes, a process without descriptors.

use std::ffi::CStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
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
    let Some(path) = super::process::c_string(path.as_os_str()) else { return false };
    let mut found = [0_u8; 16];
    // SAFETY: both names end in NUL, and the kernel writes no more than the length that it is told.
    let length = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), found.as_mut_ptr().cast(), found.len()) };
    usize::try_from(length).ok().and_then(|length| found.get(..length)) == Some(value)
}

/// Closes every descriptor above 2 but those in `keep`. For a copy of this process that goes on without what it owns.
pub fn close_others(keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<u32> = keep.iter().filter_map(|number| u32::try_from(*number).ok()).collect();
    keep.sort_unstable();
    let mut from = 3;
    for number in keep.into_iter().filter(|number| *number > 2).chain([u32::MAX]) {
        if from < number {
            let last = if number == u32::MAX { u32::MAX } else { number - 1 };
            close_between(from, last)?;
        }
        from = number.saturating_add(1);
    }
    Ok(())
}

fn close_between(from: u32, last: u32) -> io::Result<()> {
    // SAFETY: takes three integers. The caller gives up everything that it owns in this range and never touches it again.
    if unsafe { libc::syscall(libc::SYS_close_range, from, last, 0) } == 0 {
        return Ok(());
    }
    // Before 5.9 there is no such call.
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|text| text.parse::<u32>().ok()) else { continue };
        if (from..=last).contains(&number) {
            super::fd::close(number.cast_signed());
        }
    }
    Ok(())
}
