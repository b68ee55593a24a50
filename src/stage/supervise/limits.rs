//! What ends a run before its command does: clocks and limits.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::super::cgroup::Group;
use super::super::control::Outer;
use super::super::outcome::{Outcome, Reason};
use super::{SETUP, SETUP_BY_ENGINE, Watch, killed};
use crate::policy::limits::Limit;
use crate::sys;
use crate::sys::pidfd::PidFd;

impl Watch<'_> {
    /// The next moment at which something has to be done although nobody says anything.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let cpu = self.cpu.as_ref().map(|cpu| cpu.look_at);
        [self.deadline, self.limit_at, cpu].into_iter().flatten().min()
    }

    pub(super) fn take_time(&mut self) {
        let now = Instant::now();
        let passed = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if passed(self.deadline) {
            self.expire();
        } else if passed(self.limit_at) {
            self.end_for(Limit::Time);
        } else {
            self.take_cpu();
        }
    }

    /// Kills what is left of a tree that ran out of memory: the kernel may have taken only one process of it.
    pub(super) fn take_shortage(&mut self) {
        if self.group.as_ref().is_some_and(Group::out_of_memory) && self.committed {
            if let Some(group) = &self.group {
                group.note();
            }
            self.kill_for(Limit::Memory);
        }
    }

    /// Looks at the processor time of the tree: first a signal that says why, a second later the end.
    pub(super) fn take_cpu(&mut self) {
        let (Some(cpu), Some(used)) = (&mut self.cpu, self.group.as_ref().and_then(Group::cpu_time)) else { return };
        match cpu.look(used) {
            Spent::Less => {}
            Spent::Enough => {
                self.account.limits_hit.insert(Limit::Cpu);
                self.forward(libc::SIGXCPU);
            }
            Spent::TooMuch => self.kill_for(Limit::Cpu),
        }
    }

    /// Ends the target at once because it reached `limit`.
    pub(super) fn kill_for(&mut self, limit: Limit) {
        self.account.limits_hit.insert(limit);
        self.account.ended_by.get_or_insert(limit);
        self.last.get_or_insert_with(killed);
        self.kill_all();
    }

    /// Ends the target because it reached `limit`: asks it to, and kills everything after the grace.
    pub(super) fn end_for(&mut self, limit: Limit) {
        self.account.limits_hit.insert(limit);
        if self.account.ended_by.is_some() {
            return;
        }
        self.account.ended_by = Some(limit);
        self.limit_at = None;
        self.hurry();
        self.forward(libc::SIGTERM);
    }

    /// Grants no more than the grace from now on.
    pub(super) fn hurry(&mut self) {
        let grace = Instant::now().checked_add(self.plan.kill_after);
        self.deadline = match (self.deadline, grace) {
            (Some(earlier), Some(grace)) => Some(earlier.min(grace)),
            (earlier, grace) => grace.or(earlier),
        };
    }

    pub(super) fn expire(&mut self) {
        if self.committed {
            self.last.get_or_insert(killed());
        } else {
            self.hung = true;
            let seconds = if self.keeper.is_some() { SETUP_BY_ENGINE } else { SETUP }.as_secs();
            self.last = Some(Outcome::NotStarted(Reason {
                text: format!("it did not start the command within {seconds} s"),
                said: self.messages.text(),
                hung: true,
                ..Reason::default()
            }));
        }
        self.kill_all();
    }
}

/// The limit on processor time of a tree.
pub(super) struct Cpu {
    limit: Duration,
    /// What was used before the target started.
    before: Duration,
    warned: bool,
    pub(super) look_at: Instant,
}

/// What a tree has used of its processor time.
pub(super) enum Spent {
    Less,
    /// All of it, for the first time.
    Enough,
    /// A second more.
    TooMuch,
}

impl Cpu {
    /// The least time between two looks.
    const LEAST: Duration = Duration::from_millis(20);

    pub(super) fn new((seconds, before): (u64, Duration)) -> Self {
        let limit = Duration::from_secs(seconds);
        Self { limit, before, warned: false, look_at: Instant::now() + Self::LEAST }
    }

    /// Whether all of it was used.
    pub(super) fn is_spent(&self, used: Duration) -> bool {
        used.saturating_sub(self.before) >= self.limit
    }

    pub(super) fn look(&mut self, used: Duration) -> Spent {
        let used = used.saturating_sub(self.before);
        let end = self.limit.saturating_add(Duration::from_secs(1));
        let next = if used < self.limit { self.limit } else { end };
        // On all processors at once it cannot be reached any sooner.
        let processors =
            std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
        let pause = (next.saturating_sub(used) / processors).clamp(Self::LEAST, Duration::from_mins(1));
        self.look_at = Instant::now() + pause;
        if used >= end {
            Spent::TooMuch
        } else if used >= self.limit && !std::mem::replace(&mut self.warned, true) {
            Spent::Enough
        } else {
            Spent::Less
        }
    }
}

/// A process that lets this one go on when there is something to do: while we are stopped with the target, so are our clocks
/// and ears.
pub(super) struct Waker(Pid);

impl Waker {
    /// Wakes at `moment`, and when something is said on `control`: the target may be made to go on by somebody inside.
    pub(super) fn start(control: &Outer, moment: Option<Instant>) -> io::Result<Self> {
        let us = PidFd::open(nix::unistd::getpid().as_raw())?;
        let waker = sys::process::fork(|| {
            let Ok(us) = us.in_child() else { return };
            let kept = [us.as_fd().as_raw_fd(), control.as_fd().as_raw_fd()];
            // What stays open only means that somebody sees an end later.
            let _silent = sys::fd::silence(&[0, 1, 2]);
            let _closed = sys::fd::close_others(&kept);
            // What stops the terminal's processes must not stop this one.
            let _own = nix::unistd::setsid();
            let timeout = moment.map_or(PollTimeout::NONE, |moment| {
                let left = moment.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            });
            let mut polled =
                [PollFd::new(us.as_fd(), PollFlags::POLLIN), PollFd::new(control.as_fd(), PollFlags::POLLIN)];
            let woken = poll(&mut polled, timeout);
            let gone = polled[0].revents().is_some_and(|events| !events.is_empty());
            if woken.is_ok() && !gone {
                let _sent = us.send(Signal::SIGCONT);
            }
        })?;
        Ok(Self(waker))
    }

    pub(super) fn end(self) {
        let _sent = kill(self.0, Signal::SIGKILL);
        while waitpid(self.0, None) == Err(Errno::EINTR) {}
    }
}
