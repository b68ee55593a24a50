//! The end of a run: everything killed and taken in, what was written passed on, the account drawn up.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::account::{Account, End};
use super::super::cgroup::{Group, Mechanism, Wants};
use super::super::control::Report;
use super::super::door::{self, Ending, Keeper};
use super::super::outcome::{Outcome, Reason};
use super::super::output::{Output, PATIENCE};
use super::super::strace::Listener;
use super::{MERCY, Phase, TEARDOWN, TEARDOWN_BY_ENGINE, Watch, killed};
use crate::policy::limits::Limit;
use crate::sys;
use crate::sys::process::{Change, changed_child_with_usage};

impl Watch<'_> {
    /// Kills everything inside. Without a handle on process 1 there is no target yet, and the launcher goes instead.
    pub(super) fn kill_all(&mut self) {
        self.deadline = None;
        // The inner stage kills everything when the socket closes, and takes it in.
        self.control = None;
        if self.committed && self.init.is_some() && self.plan.backend.has_view() {
            self.mercy.get_or_insert(Instant::now() + MERCY);
        } else {
            self.kill_now();
        }
    }

    /// Kills without waiting for anybody.
    fn kill_now(&mut self) {
        self.mercy = None;
        if let Some(group) = self.group.as_ref().filter(|_| self.committed) {
            group.kill();
        }
        match self.init.as_ref().filter(|_| self.plan.backend.has_view()) {
            Some(init) => {
                let _sent = init.send(Signal::SIGKILL);
            }
            // Not only the inner stage: the target may have stopped that.
            None if self.committed => self.kill_tree(),
            // What an engine has started does not fall to us when it is dead.
            None if self.keeper.is_some() => self.kill_tree(),
            None => {
                let _sent = kill(self.launcher, Signal::SIGKILL);
            }
        }
    }

    /// Kills all that comes of us, as far as it is the run's.
    fn kill_tree(&mut self) {
        let spared = self.spared();
        if let Some(target) = self.account.pid.filter(|_| self.plan.new_session) {
            sys::process::end_session(Pid::from_raw(target));
        }
        sys::process::kill_tree(&spared, &mut |_, usage| self.usage.add(usage));
    }

    /// Removes what the engine of a container may have left, and the directory of the run.
    pub(super) fn leave_door(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.end(match self.launcher_status {
                // One that has seen the inner stage come to its end has seen to the removal.
                Some(0) => Ending::Removed,
                _ if self.hung => Ending::Hung,
                _ => Ending::Left,
            });
            // As it was for all others.
            let _set = door::leave_orphans(false);
        }
    }

    /// Ends what runs without the group that it was to run in, and says whether there may be another attempt: the inner stage
    /// may meanwhile be on its way to start the target.
    pub(super) fn refuse_without_group(&mut self, error: &io::Error) -> Outcome {
        let reason = Reason::without_group(&Wants::of(self.plan), error);
        if let Some(init) = &self.init {
            let _sent = init.send(Signal::SIGKILL);
        }
        let deadline = Instant::now() + TEARDOWN;
        while let Some(control) = &self.control {
            let left = PollTimeout::try_from(deadline.saturating_duration_since(Instant::now()));
            let mut polled = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
            match poll(&mut polled, left.unwrap_or(PollTimeout::ZERO)) {
                Err(Errno::EINTR) => continue,
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            match control.receive() {
                Ok(Some(message)) => self.committed |= message.report == Report::Executing,
                Ok(None) | Err(_) => break,
            }
        }
        if !self.committed {
            return Outcome::NotStarted(reason);
        }
        tracing::error!("{reason}; the command had started and was killed");
        killed()
    }

    /// Waits for the launcher and for all that fell to us, and kills what does not go.
    ///
    /// Without a sandbox only the inner stage is awaited: what the target left running is not ours to end, unless we or
    /// somebody else had to end the target.
    pub(super) fn bury(&mut self) {
        self.control = None;
        // One that was stopped would not see that everything inside is dead.
        let _sent = kill(self.launcher, Signal::SIGCONT);
        let teardown = if self.keeper.is_some() { TEARDOWN_BY_ENGINE } else { TEARDOWN };
        let deadline = Instant::now() + teardown;
        let mut launcher_gone = false;
        let spared = self.spared();
        loop {
            match changed_child_with_usage() {
                Ok(None) => {}
                Ok(Some((pid, change @ (Change::Exited(_) | Change::Signaled(_)), usage))) => {
                    if pid == self.launcher {
                        launcher_gone = true;
                        self.launcher_status = change.status();
                    }
                    if self.keeper.is_some() {
                        // The engine's own work.
                        continue;
                    }
                    self.usage.add(usage);
                    continue;
                }
                Ok(Some((_, Change::Stopped | Change::Continued, _))) | Err(Errno::EINTR) => continue,
                Err(_) => return,
            }
            // It may have been taken in where it was killed.
            launcher_gone |= sys::process::children().iter().all(|child| spared.contains(child));
            if self.mercy.is_some_and(|mercy| launcher_gone || mercy <= Instant::now()) {
                self.kill_now();
                continue;
            }
            let left = self.mercy.unwrap_or(deadline).min(deadline).saturating_duration_since(Instant::now());
            let all = self.ends_all();
            match (all, launcher_gone) {
                (false, true) => return,
                (true, true) => return self.kill_tree(),
                (_, false) if left.is_zero() => return self.kill_tree(),
                (_, false) => {}
            }
            let mut polled = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            // A failed poll only means looking again too early.
            let left = left + Duration::from_millis(1);
            let _woken = poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
            // Nobody is left to pass one on to, but one that asks us to end must not be lost.
            let _noted = self.take_signals();
        }
    }

    /// Children that are not the run's.
    pub(super) fn spared(&self) -> Vec<Pid> {
        let own = self
            .group
            .as_ref()
            .and_then(Group::guardian)
            .into_iter()
            .chain(self.proxy)
            .chain(self.keeper.as_ref().map(Keeper::pid));
        self.host.children.iter().copied().chain(own).collect()
    }

    /// Whether nothing may be left: inside a sandbox nothing ever is, elsewhere when the target did not end by itself.
    pub(super) fn ends_all(&self) -> bool {
        self.plan.backend.filters() || self.phase != Phase::Over || !self.account.limits_hit.is_empty()
    }

    /// Passes on what the target wrote and nobody has read yet. Whoever reads may take the time it takes, unless the run was
    /// ended or somebody wants us to end.
    pub(super) fn drain(&mut self) {
        let mut until = None;
        let end = if self.ends_all() { Output::end_writers } else { Output::end_run };
        self.output.iter_mut().for_each(end);
        loop {
            self.pump();
            if self.limit_at.is_some_and(|limit| limit <= Instant::now()) {
                // Not over before its output is.
                self.limit_at = None;
                self.account.limits_hit.insert(Limit::Time);
                self.account.ended_by.get_or_insert(Limit::Time);
            }
            let ended = self.account.ended_by.is_some() || self.terminated_at.is_some() || self.asked.is_some();
            if ended && until.is_none() {
                crate::log::hurry();
                until = Some(Instant::now() + PATIENCE);
            }
            let alive = !self.ends_all();
            let Some(output) = self.output.as_ref().filter(|output| !output.is_done(alive)) else {
                if alive {
                    self.leave();
                }
                return;
            };
            let left = until.or(self.limit_at).map(|until| until.saturating_duration_since(Instant::now()));
            if until.is_some() && left.is_some_and(|left| left.is_zero()) {
                return self.output.as_mut().map_or((), Output::abandon);
            }
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
            let mut polled = output.interests();
            polled.push(PollFd::new(self.signals.as_fd(), PollFlags::POLLIN));
            // A failed poll only means looking again too early.
            let _woken = poll(&mut polled, timeout);
            drop(polled);
            let _noted = self.take_signals();
        }
    }

    /// Whether systemd has ended the target because something beside it had no memory left, and was quicker than we.
    pub(super) fn was_ended_for_memory(&self) -> bool {
        let by_request =
            self.account.end == Some(End::Signaled(Signal::SIGTERM as i32)) && self.terminated_at.is_none();
        let systemd = self.plan.cgroup.as_ref().is_some_and(Mechanism::is_systemd);
        systemd && by_request && self.group.as_ref().is_some_and(Group::out_of_memory)
    }

    /// Has somebody else pass on what is written by those who outlive the run.
    fn leave(&mut self) {
        if let Some(Err(error)) = self.output.as_mut().map(Output::leave) {
            let reason = sys::process::describe(&error);
            tracing::warn!("what the command left running can write no more: cannot start a process: {reason}");
        }
    }

    /// What is known when everything is over.
    pub(super) fn account(mut self) -> Account {
        let account = &mut self.account;
        let ended_by = match account.end {
            Some(End::Signaled(number)) if self.passed_on.has(number) => Some(number),
            Some(_) | None => None,
        };
        // Before the target ran, that is: later ones are in the account.
        let early = self.asked.filter(|_| self.started_at.is_none());
        account.asked = account.asked.or(early).or(self.terminated_at.map(|_| Signal::SIGTERM as i32)).or(ended_by);
        account.output = self.output.map(Output::finish);
        account.denials = self.trace.map(Listener::finish);
        if let Some(start) = self.started_at {
            // When nobody told of its end, it ended about now.
            account.wall.get_or_insert_with(|| start.elapsed());
            if let Some(peak) = self.group.as_ref().and_then(Group::peak_memory) {
                self.usage.max_rss_kib = peak >> 10;
            }
            account.usage = Some(self.usage);
            account.end = account.end.or(Some(End::Signaled(Signal::SIGKILL as i32)));
        }
        let limits = &self.plan.limits;
        let of_tree = self.cpu.as_ref().zip(self.group.as_ref().and_then(Group::cpu_time));
        let all_spent = of_tree.is_some_and(|(cpu, used)| cpu.is_spent(used));
        // The signal alone says nothing: everybody can send it. Who has used up his own time is what the inner stage told.
        if limits.cpu_time.is_some() && all_spent {
            account.limits_hit.insert(Limit::Cpu);
        }
        let too_large = account.output.as_ref().is_some_and(|output| output.too_large);
        let signaled = account.end == Some(End::Signaled(Signal::SIGXFSZ as i32));
        if too_large || limits.max_file_size.is_some() && signaled {
            account.limits_hit.insert(Limit::FileSize);
        }
        if self.group.as_ref().is_some_and(Group::out_of_memory) {
            account.limits_hit.insert(Limit::Memory);
        }
        if self.group.as_ref().is_some_and(Group::procs_refused) {
            account.limits_hit.insert(Limit::Procs);
        }
        if account.output.as_ref().is_some_and(|output| output.over) {
            account.limits_hit.insert(Limit::Output);
        }
        if let Some(limit) = account.ended_by.or_else(|| by_kernel(account)) {
            tracing::warn!("the command was ended: {}", limit.reached());
        }
        self.account
    }
}

/// The limit for which the kernel ended the target by a signal, as far as that can be told; nobody asked for its end then.
fn by_kernel(account: &Account) -> Option<Limit> {
    let Some(End::Signaled(signal)) = account.end.filter(|_| account.asked.is_none()) else { return None };
    let limits: &[Limit] = match Signal::try_from(signal) {
        // Who does not obey the first signal for its time gets this one.
        Ok(Signal::SIGKILL) => &[Limit::Memory, Limit::Cpu],
        Ok(Signal::SIGXCPU) => &[Limit::Cpu],
        Ok(Signal::SIGXFSZ) => &[Limit::FileSize],
        _ => &[],
    };
    limits.iter().copied().find(|limit| account.limits_hit.contains(limit))
}
