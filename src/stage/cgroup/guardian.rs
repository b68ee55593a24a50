//! A small process that removes a group when the process that made it is killed.
//!
//! It keeps nothing open, has a session of its own, and does nothing else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpid, pipe2, setsid};

use super::members::Members;
use crate::sys;
use crate::sys::pidfd::PidFd;

/// How long it looks after a group that it had to kill and that does not become empty.
const PATIENCE: Duration = Duration::from_mins(1);

/// The guardian of a group, seen from the process that it watches.
#[derive(Debug)]
pub(super) struct Guardian {
    pid: Pid,
    handle: PidFd,
    leave: File,
}

impl Guardian {
    pub(super) fn start(members: &Members) -> io::Result<Self> {
        // Before the fork: afterwards this process may already be gone, and its number somebody else's.
        let watched = PidFd::open(getpid().as_raw())?;
        let (told, leave) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let (ready, settled) = pipe2(OFlag::O_CLOEXEC)?;
        let pid = sys::process::fork(|| {
            let _ended = guard(members, &watched, &told, &settled);
            sys::process::exit_now(0)
        })?;
        let handle = PidFd::open(pid.as_raw()).inspect_err(|_| {
            let _sent = nix::sys::signal::kill(pid, Signal::SIGKILL);
        })?;
        drop(settled);
        // Not before it is out of reach of what is sent to our process group is there anything to be guarded.
        match File::from(ready).read(&mut [0]) {
            Ok(1) => Ok(Self { pid, handle, leave: leave.into() }),
            Ok(_) => Err(io::Error::other("the process that watches over the group ended early")),
            Err(error) => Err(error),
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// The group is gone: there is nothing left to guard.
    pub(super) fn end(self) {
        let _sent = self.handle.send(Signal::SIGKILL);
        // Whoever waits for all children may have taken it in already.
        while waitpid(self.pid, None) == Err(Errno::EINTR) {}
    }

    /// The group may stay as long as something runs in it. The guardian outlives us.
    pub(super) fn leave(mut self) {
        // Killed meanwhile: nobody is left to tell.
        let _told = self.leave.write_all(b"l");
    }
}

/// In the guardian: waits for the end of the process `watched`, then for the end of the group.
fn guard(members: &Members, watched: &PidFd, told: &OwnedFd, settled: &OwnedFd) -> io::Result<()> {
    setsid()?;
    // Nothing that is sent to the group of a terminal, or to everybody, shall end it.
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
    sys::fd::silence(&[0, 1, 2])?;
    nix::unistd::write(settled, b"r")?;
    sys::fd::close_others(&[watched.as_fd().as_raw_fd(), told.as_raw_fd()])?;
    std::env::set_current_dir("/")?;
    loop {
        let mut polled =
            [PollFd::new(watched.as_fd(), PollFlags::POLLIN), PollFd::new(told.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) => break,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    if matches!(nix::unistd::read(told, &mut [0]), Ok(1)) {
        members.remove_within(FOREVER);
    } else {
        members.kill();
        members.remove_within(PATIENCE);
    }
    Ok(())
}

/// Longer than machines run, and still something that can be added to a point in time.
const FOREVER: Duration = Duration::from_hours(24 * 365 * 50);
