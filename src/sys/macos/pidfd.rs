//! Processes by number, and waiting for their end. A number counts for a child that nobody has taken in, and for a parent.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};

/// A hold on one process.
#[derive(Debug)]
pub struct PidFd {
    process: Pid,
    /// Has something to read when the process has ended.
    queue: OwnedFd,
}

impl PidFd {
    /// The process with number `pid`.
    pub fn open(pid: i32) -> io::Result<Self> {
        let queue = super::signals::queue()?;
        let ident = usize::try_from(pid).map_err(io::Error::other)?;
        super::signals::add(&queue, ident, libc::EVFILT_PROC, libc::NOTE_EXIT)?;
        Ok(Self { process: Pid::from_raw(pid), queue })
    }

    /// The inner stage, which the launcher has become; a descriptor is not sent.
    #[must_use]
    pub fn of_message(_: Option<OwnedFd>, launcher: Pid) -> Option<Self> {
        Self::open(launcher.as_raw()).ok()
    }

    /// Its number.
    #[allow(clippy::unnecessary_wraps, reason = "on Linux it can be gone")]
    #[must_use]
    pub fn number(&self) -> Option<Pid> {
        Some(self.process)
    }

    /// What this process can send along with a message for others to have a handle on it: nothing, a queue stays where it is.
    #[allow(clippy::unnecessary_wraps, reason = "on Linux there is something, and it can fail")]
    pub fn of_this_process() -> io::Result<Option<Self>> {
        Ok(None)
    }

    /// The same in a child of that process, to which the queue does not come.
    pub fn in_child(self) -> io::Result<Self> {
        // A queue of the parent's is no descriptor here, and its number is not ours to close.
        std::mem::forget(self.queue);
        let same = Self::open(self.process.as_raw())?;
        if getppid() == self.process { Ok(same) } else { Err(Errno::ESRCH.into()) }
    }

    /// Sends `signal`; a process that is gone is fine.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        match kill(self.process, signal) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}
