//! The three standard streams of this process.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What reading or writing a descriptor gives that is not open.
#[must_use]
pub fn not_open() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

/// Writes to standard error, and gives up a reader who takes longer than `patience`.
pub fn write_error(bytes: &[u8], patience: Duration) -> io::Result<usize> {
    let stderr = io::stderr();
    let mut polled = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    let wait = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
    if !matches!(poll(&mut polled, wait), Ok(1..)) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    // A terminal that has room for a part waits with the rest.
    super::signals::bounded(patience, || (&stderr).write(bytes)).map_err(|error| match error.kind() {
        // Not tried again.
        io::ErrorKind::Interrupted => io::ErrorKind::TimedOut.into(),
        _ => error,
    })
}
