//! Processes by descriptor: a number can be reused, a descriptor cannot.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// A handle on one process, wherever its number stands in which namespace.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// The process with number `pid` in our namespace.
    pub fn open(pid: i32) -> io::Result<Self> {
        // SAFETY: pidfd_open takes two integers.
        let number = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        let number = i32::try_from(number).map_err(io::Error::other)?;
        // SAFETY: the kernel just returned this descriptor, so it is open and ours alone.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(number) }))
    }

    /// The process that sent a message, of which it sent a handle along.
    #[must_use]
    pub fn of_message(handle: Option<OwnedFd>, _: Pid) -> Option<Self> {
        handle.map(Self)
    }

    /// One that was sent by whoever opened it.
    #[must_use]
    pub fn of_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Its number in our namespace; `None` when it is gone.
    #[must_use]
    pub fn number(&self) -> Option<Pid> {
        let told = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", self.0.as_raw_fd())).ok()?;
        let number = told.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()?;
        Some(Pid::from_raw(number)).filter(|pid| pid.as_raw() > 0)
    }

    /// What this process can send along with a message for others to have a handle on it.
    pub fn of_this_process() -> io::Result<Option<Self>> {
        Self::open(nix::unistd::getpid().as_raw()).map(Some)
    }

    /// The same in a child of the process that opened it.
    pub fn in_child(self) -> io::Result<Self> {
        Ok(self)
    }

    /// Sends `signal`; a process that is gone is fine.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        let none = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: a null siginfo makes the kernel fill it in; the other arguments are integers.
        let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal as i32, none, 0) };
        if sent == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) }
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
