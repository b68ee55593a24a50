//! Watching a run from outside: signals, stops, deadlines, and the certainty that nothing is left.
//!
//! Nothing here depends on a process inside being honest: a kill goes to process 1 of the sandbox by its handle.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, killpg, raise};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

use super::control::Report;
use super::outer::{Outcome, Reason, Started};
use crate::exit::Status;
use crate::host::Host;
use crate::plan::Plan;
use crate::sys;
use crate::sys::pidfd::PidFd;

/// Signals that are for the target when they come to us.
pub const FORWARDED: [Signal; 11] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];

/// How long a launcher may take until the target runs. Ample: a start takes milliseconds, and hundreds at once seconds.
const SETUP: Duration = Duration::from_secs(10);

/// How long to wait for the launcher once everything inside is dead.
const TEARDOWN: Duration = Duration::from_secs(5);

/// A second TERM within this time is the same one: `timeout` sends it to the process and to its group.
const SAME_SIGNAL: Duration = Duration::from_millis(200);

/// Watches until the target has ended and nothing of the run is left.
#[must_use]
pub fn watch(plan: &Plan, host: &Host, started: Started) -> Outcome {
    let Started { launcher, control, signals, messages } = started;
    let terminal = Terminal::of(host, plan.new_session);
    let mut watch = Watch {
        plan,
        launcher,
        control: Some(control),
        signals,
        messages,
        init: None,
        running: false,
        terminated_at: None,
        deadline: Some(Instant::now() + SETUP),
        stops_along: terminal.is_some(),
        last: None,
    };
    let outcome = match watch.until_the_end() {
        Ok(outcome) => outcome,
        Err(error) => {
            watch.kill_all();
            Outcome::NotStarted(error.into())
        }
    };
    watch.bury();
    if let Some(terminal) = terminal {
        terminal.restore(matches!(outcome, Outcome::Ended(Status::Signaled(_))));
    }
    outcome
}

struct Watch<'a> {
    plan: &'a Plan,
    launcher: Pid,
    control: Option<super::control::Outer>,
    signals: nix::sys::signalfd::SignalFd,
    messages: super::outer::Messages,
    /// Process 1 of the sandbox, or the inner stage where there is none.
    init: Option<PidFd>,
    running: bool,
    terminated_at: Option<Instant>,
    /// When to kill: the start takes too long, or the grace after TERM is over.
    deadline: Option<Instant>,
    /// Whether we stop when the target stops.
    stops_along: bool,
    last: Option<Outcome>,
}

impl Watch<'_> {
    fn until_the_end(&mut self) -> io::Result<Outcome> {
        while let Some(control) = &self.control {
            let timeout = match self.deadline {
                None => PollTimeout::NONE,
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        self.expire();
                        continue;
                    }
                    // Up to the next millisecond, so as not to spin through the last one.
                    PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
                }
            };
            let mut polled =
                [PollFd::new(control.as_fd(), PollFlags::POLLIN), PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            match poll(&mut polled, timeout) {
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let [reported, signalled] = polled.map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
            if signalled {
                self.take_signals()?;
            }
            if reported {
                self.take_report()?;
            }
        }
        Ok(match self.last.take() {
            Some(outcome) => outcome,
            None if self.running => Outcome::Ended(Status::Signaled(Signal::SIGKILL as i32)),
            None => Outcome::NotStarted(self.why_not_started()),
        })
    }

    fn take_report(&mut self) -> io::Result<()> {
        let Some(control) = &self.control else { return Ok(()) };
        let Some((report, handle)) = control.receive()? else {
            self.control = None;
            return Ok(());
        };
        match report {
            Report::Alive => self.init = handle.map(PidFd::from),
            Report::Failed(step, errno) => {
                let reason = if errno == 0 { String::new() } else { format!(": {}", sys::process::reason(errno)) };
                self.last = Some(Outcome::NotStarted(Reason {
                    step: Some(step),
                    text: format!("cannot {}{reason}", step.text()),
                    said: String::new(),
                }));
            }
            Report::NotExecuted(errno) => self.last = Some(Outcome::NotExecuted(errno)),
            Report::Started => {
                self.running = true;
                if self.terminated_at.is_none() {
                    self.deadline = None;
                }
            }
            Report::Stopped => {
                if self.stops_along {
                    self.stop()?;
                }
            }
            Report::Exited(code) => {
                self.last = Some(Outcome::Ended(Status::Exited(u8::try_from(code).unwrap_or(u8::MAX - 1))));
            }
            Report::Signaled(signal) => self.last = Some(Outcome::Ended(Status::Signaled(signal))),
        }
        Ok(())
    }

    fn take_signals(&mut self) -> io::Result<()> {
        while let Some(info) = self.signals.read_signal()? {
            let Some(signal) = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok())
            else {
                continue;
            };
            match signal {
                // Whether a child is gone is what the control socket says; `bury` takes it in.
                Signal::SIGCHLD => {}
                Signal::SIGTERM => self.terminate(),
                // A session of its own is an orphaned process group, in which the kernel ignores SIGTSTP.
                Signal::SIGTSTP if self.plan.new_session => {
                    self.stops_along = true;
                    self.forward(Signal::SIGSTOP);
                }
                signal => self.forward(signal),
            }
        }
        Ok(())
    }

    fn forward(&self, signal: Signal) {
        if let Some(control) = &self.control {
            // Nobody left to tell is what the next read of the socket says.
            let _sent = control.signal(signal as i32);
        }
    }

    /// TERM is passed on; after the grace, or at once when it comes again, everything is killed.
    fn terminate(&mut self) {
        let now = Instant::now();
        match self.terminated_at {
            Some(first) if now.duration_since(first) < SAME_SIGNAL => {}
            Some(_) => self.kill_all(),
            None => {
                self.terminated_at = Some(now);
                let grace = now.checked_add(self.plan.kill_after);
                self.deadline = match (self.deadline, grace) {
                    (Some(earlier), Some(grace)) => Some(earlier.min(grace)),
                    (earlier, grace) => grace.or(earlier),
                };
                self.forward(Signal::SIGTERM);
            }
        }
    }

    fn expire(&mut self) {
        if !self.running && self.terminated_at.is_none() {
            let seconds = SETUP.as_secs();
            self.last = Some(Outcome::NotStarted(Reason {
                step: None,
                text: format!("it did not start the command within {seconds} s"),
                said: self.messages.text(),
            }));
        } else {
            self.last.get_or_insert(Outcome::Ended(Status::Signaled(Signal::SIGKILL as i32)));
        }
        self.kill_all();
    }

    /// Kills everything inside. Without a handle on process 1 there is no target yet, and the launcher goes instead.
    fn kill_all(&mut self) {
        self.deadline = None;
        // An inner stage without a process namespace kills its children when the socket closes.
        self.control = None;
        let process_1 = self.init.as_ref().filter(|_| self.plan.backend.has_view());
        match process_1 {
            Some(init) => {
                let _sent = init.send(Signal::SIGKILL);
            }
            None if self.running => {}
            None => {
                let _sent = kill(self.launcher, Signal::SIGKILL);
            }
        }
    }

    /// Stops as the target did, so that the shell gets its terminal back; goes on when somebody says so.
    fn stop(&mut self) -> io::Result<()> {
        if self.plan.new_session {
            self.stops_along = false;
        }
        raise(Signal::SIGSTOP)?;
        Ok(())
    }

    fn why_not_started(&mut self) -> Reason {
        Reason { step: None, text: "it ended before it started the command".into(), said: self.messages.text() }
    }

    /// Waits for the launcher and for all that fell to us, and kills what does not go.
    ///
    /// Without a sandbox only the inner stage is awaited: what the target left running is not ours to end.
    fn bury(&mut self) {
        self.control = None;
        let deadline = Instant::now() + TEARDOWN;
        let mut launcher_gone = false;
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => {}
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) => {
                    launcher_gone |= pid == self.launcher;
                    continue;
                }
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => return,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match (self.plan.backend.has_view(), launcher_gone) {
                (false, true) => return,
                (true, true) => return sys::process::kill_children(),
                (_, false) if left.is_zero() => return sys::process::kill_children(),
                (_, false) => {}
            }
            let mut polled = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            // A failed poll only means looking again too early.
            let _woken = poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
            while let Ok(Some(_)) = self.signals.read_signal() {}
        }
    }
}

/// The terminal that the target shares with us.
struct Terminal {
    fd: OwnedFd,
    modes: Option<Termios>,
    /// Whether we were in the foreground when the run began.
    foreground: bool,
}

impl Terminal {
    fn of(host: &Host, new_session: bool) -> Option<Self> {
        let stream = host.terminals.iter().position(|terminal| *terminal)?;
        if new_session {
            return None;
        }
        let fd = sys::fd::duplicate_stream(i32::try_from(stream).ok()?).ok()??;
        let modes = tcgetattr(&fd).ok();
        let foreground = tcgetpgrp(&fd).is_ok_and(|group| group == getpgrp());
        Some(Self { fd, modes, foreground })
    }

    /// Gives the terminal back as it was: its modes if the target had no chance to, the foreground if its group is gone.
    fn restore(&self, died: bool) {
        if died
            && self.foreground
            && let Some(modes) = &self.modes
        {
            let _set = tcsetattr(&self.fd, SetArg::TCSADRAIN, modes);
        }
        if self.foreground
            && let Ok(group) = tcgetpgrp(&self.fd)
            && group != getpgrp()
            && killpg(group, None) == Err(Errno::ESRCH)
        {
            let _set = tcsetpgrp(&self.fd, getpgrp());
        }
    }
}
