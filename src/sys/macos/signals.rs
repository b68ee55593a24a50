//! Signals as descriptors, and masks of all that there are.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::sys::signals::Signals;

/// Highest signal number; higher numbers do not exist.
pub const LAST: i32 = 31;

/// Those of which one libc or another lets nobody set the disposition: none.
pub const RESERVED: u64 = 0;

/// Those that end a program and that other systems have not.
pub const FATAL: &[Signal] = &[Signal::SIGEMT];

/// Those that a failed write of our own causes. Who sent a signal is not told, so that these are heard from nobody.
const OWN: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// A queue of events of the kernel, close-on-exec. A child has none of it.
pub(super) fn queue() -> io::Result<OwnedFd> {
    // SAFETY: takes nothing.
    let number = unsafe { libc::kqueue() };
    if number == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor, so it is open and ours alone.
    let queue = unsafe { OwnedFd::from_raw_fd(number) };
    super::fd::set_private(&queue)?;
    Ok(queue)
}

fn event(ident: usize, filter: i16, notes: u32) -> libc::kevent {
    let flags = libc::EV_ADD;
    libc::kevent { ident, filter, flags, fflags: notes, data: 0, udata: std::ptr::null_mut() }
}

/// Has a queue tell of something.
pub(super) fn add(queue: &OwnedFd, ident: usize, filter: i16, notes: u32) -> io::Result<()> {
    let change = event(ident, filter, notes);
    let none = std::ptr::null_mut();
    // SAFETY: one change is read, and no event is asked for.
    let done = unsafe { libc::kevent(queue.as_raw_fd(), &raw const change, 1, none, 0, std::ptr::null()) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Signals that come to this process while they are blocked.
#[derive(Debug)]
pub struct Arrivals(OwnedFd);

impl Arrivals {
    /// Of these signals, which the caller has to block.
    pub fn of(signals: Signals) -> io::Result<Self> {
        let queue = queue()?;
        for number in (1..=LAST).filter(|number| signals.has(*number) && !OWN.contains(number)) {
            let ident = usize::try_from(number).map_err(io::Error::other)?;
            match add(&queue, ident, libc::EVFILT_SIGNAL, 0) {
                // What cannot be told of cannot be caught either.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                done => done?,
            }
        }
        // Those that came before there was a queue come once more.
        for number in (1..=LAST).filter(|number| signals.has(*number) && !OWN.contains(number)) {
            if take(number) {
                crate::sys::signals::send(nix::unistd::getpid(), number)?;
            }
        }
        Ok(Self(queue))
    }

    /// The number of the next one; `None` when there is none for now.
    pub fn next(&self) -> io::Result<Option<i32>> {
        let mut event = event(0, 0, 0);
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let none = std::ptr::null();
        // SAFETY: room for one event, and a time that outlives the call.
        let count = unsafe { libc::kevent(self.0.as_raw_fd(), none, 0, &raw mut event, 1, &raw const now) };
        match Errno::result(count) {
            Ok(0) | Err(Errno::EINTR) => Ok(None),
            Ok(_) => {
                let number = i32::try_from(event.ident).ok().filter(|number| (1..=LAST).contains(number));
                let number = number.ok_or(io::ErrorKind::InvalidData)?;
                let _waited = take(number);
                Ok(Some(number))
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// The same, and who sent it: 0, since that is not told.
    pub fn next_from(&self) -> io::Result<Option<(i32, i32)>> {
        Ok(self.next()?.map(|number| (number, 0)))
    }
}

impl AsFd for Arrivals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Takes a signal that waits because it is blocked; whether there was one. What the queue has told of must not come again when
/// the mask is lifted.
fn take(number: i32) -> bool {
    let bit: libc::sigset_t = 1 << (number - 1);
    let mut pending: libc::sigset_t = 0;
    // SAFETY: `pending` is valid for writes.
    let asked = unsafe { libc::sigpending(&raw mut pending) };
    if asked != 0 || pending & bit == 0 {
        return false;
    }
    let mut taken = 0;
    // SAFETY: the set is valid for reads and the number for writes; it waits, so that the call returns at once.
    unsafe { libc::sigwait(&raw const bit, &raw mut taken) == 0 }
}

/// The signals that are blocked, as bits: `n - 1` for signal `n`. Allocates nothing.
pub(in crate::sys) fn blocked() -> u64 {
    let mut set: libc::sigset_t = 0;
    // SAFETY: a null new set only queries, and `set` is valid for writes.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set) };
    u64::from(set)
}

/// Blocks exactly these signals.
pub(in crate::sys) fn block(set: u64) -> io::Result<()> {
    // The upper half is of signals that do not exist here.
    let set = libc::sigset_t::try_from(set & u64::from(u32::MAX)).map_err(io::Error::other)?;
    // SAFETY: `set` is valid for reads; the old set is not asked for.
    let done = unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
