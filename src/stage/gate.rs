//! What holds a copy of this process up until it is in the control group of the run.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

use nix::errno::Errno;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::cgroup::{Group, Wants};
use super::outcome::Reason;
use crate::plan::Plan;
use crate::sys;

/// A pipe, where somebody else puts the copy into its group.
pub struct Gate(Option<(PipeReader, PipeWriter)>);

impl Gate {
    /// For a copy that is to be in `group`.
    pub fn of(group: Option<&Group>) -> io::Result<Self> {
        Ok(Self(group.filter(|group| group.takes_in()).map(|_| io::pipe()).transpose()?))
    }

    /// What the copy must not hold open.
    pub fn opener(&self) -> Option<RawFd> {
        self.0.as_ref().map(|(_, opened)| opened.as_raw_fd())
    }

    /// In the copy, after it let go of the [`opener`](Self::opener): waits, and ends it when nobody opens.
    pub fn wait(&self) {
        // Closed without a word: we gave up, or are gone.
        if self.0.as_ref().is_some_and(|(closed, _)| !matches!((&*closed).read(&mut [0]), Ok(1))) {
            sys::process::exit_now(125);
        }
    }

    /// Puts the copy, `launcher`, into `group` and lets it go on.
    pub fn open(self, plan: &Plan, group: Option<&Group>, launcher: Pid) -> Result<(), Reason> {
        if let (Some((_, mut opened)), Some(group)) = (self.0, group)
            && let Err(error) = group.take_in(launcher).and_then(|()| opened.write_all(b"t"))
        {
            drop(opened);
            // Nothing of the run has begun.
            while waitpid(launcher, None) == Err(Errno::EINTR) {}
            return Err(Reason::without_group(&Wants::of(plan), &error));
        }
        Ok(())
    }
}
