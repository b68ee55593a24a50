//! A pair of sockets that keep records apart and say who sent them.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, socketpair};

pub use crate::sys::frames::{Arrived, receive, receive_plain, send};

/// A write to a socket that nobody reads is a signal, which this program has blocked.
pub const NO_SIGNAL: MsgFlags = MsgFlags::empty();

/// Two ends, of which the first hears who speaks. Both close-on-exec.
pub fn pair() -> nix::Result<(OwnedFd, OwnedFd)> {
    let (hearing, other) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::empty())?;
    for end in [&hearing, &other] {
        super::fd::set_private(end)?;
        let yes: libc::c_int = 1;
        let size = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or_default();
        let value = (&raw const yes).cast();
        // SAFETY: the value has the size that is told.
        let set = unsafe { libc::setsockopt(end.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NOSIGPIPE, value, size) };
        Errno::result(set)?;
    }
    Ok((hearing, other))
}
