//! Signals as descriptors, and masks of all that there are.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::sys::signal::Signal;

use crate::sys::signals::Signals;

/// Highest signal number; higher numbers do not exist.
pub const LAST: i32 = 64;

/// Those of which one libc or another lets nobody set the disposition.
pub const RESERVED: u64 = 0b111 << 31;

/// Those that end a program and that other systems have not.
pub const FATAL: &[Signal] = &[Signal::SIGSTKFLT, Signal::SIGPWR];

/// Signals that come to this process while they are blocked.
#[derive(Debug)]
pub struct Arrivals(File);

impl Arrivals {
    /// Of these signals, which the caller has to block.
    pub fn of(signals: Signals) -> io::Result<Self> {
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        let set = &raw const signals.0;
        // SAFETY: `set` has the eight bytes that the kernel is told to read; -1 asks for a new descriptor.
        let number = unsafe { libc::syscall(libc::SYS_signalfd4, -1, set, size_of::<u64>(), flags) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        let number = i32::try_from(number).map_err(io::Error::other)?;
        // SAFETY: the kernel just returned this descriptor, so it is open and ours alone.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(number) }.into()))
    }

    /// The number of the next one that somebody else sent; `None` when there is none for now.
    ///
    /// What this process causes itself is passed over: SIGPIPE and SIGXFSZ come with a failed write, which tells enough.
    pub fn next(&self) -> io::Result<Option<i32>> {
        Ok(self.next_from()?.map(|(number, _)| number))
    }

    /// The same, and who sent it: 0 when that is the kernel, or a process outside our process namespace.
    pub fn next_from(&self) -> io::Result<Option<(i32, i32)>> {
        let own = nix::unistd::getpid().as_raw();
        loop {
            let mut record = [0; size_of::<libc::signalfd_siginfo>()];
            match (&self.0).read(&mut record) {
                Ok(length) if length == record.len() => {}
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            // signalfd(2): ssi_signo is the first field, ssi_pid the fourth.
            let field = |at: usize| record[at * 4..].first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
            if field(3) != own {
                return Ok(Some((field(0), field(3))));
            }
        }
    }
}

impl AsFd for Arrivals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The signals that are blocked, as bits: `n - 1` for signal `n`. Allocates nothing.
pub(in crate::sys) fn blocked() -> u64 {
    let mut set = 0_u64;
    let unchanged = std::ptr::null::<u64>();
    // SAFETY: a null new set only queries, and `set` has the eight bytes that the kernel is told to write.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, unchanged, &raw mut set, size_of::<u64>()) };
    set
}

/// Blocks exactly these signals. By the kernel itself: musl's functions leave out 32 to 34, which it uses itself.
pub(in crate::sys) fn block(set: u64) -> io::Result<()> {
    let old = std::ptr::null_mut::<u64>();
    // SAFETY: `set` has the eight bytes that the kernel is told to read; the old set is not asked for.
    let done =
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const set, old, size_of::<u64>()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
