//! Watching a run from outside: signals, stops, deadlines, and the certainty that nothing is left.
//!
//! Nothing here depends on a process inside being honest: a kill goes to process 1 of the sandbox by its handle.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;

use super::control::{Outer, Report};
use super::outcome::{Outcome, Reason};
use super::terminal::Terminal;
use super::traces;
use crate::exit::Status;
use crate::host::Host;
use crate::plan::Plan;
use crate::sys;
use crate::sys::pidfd::PidFd;
use crate::sys::process::{Change, changed_child};

/// How long a launcher may take until the target runs. Ample: a start takes milliseconds, and hundreds at once seconds.
const SETUP: Duration = Duration::from_secs(10);

/// How long to wait for the launcher once everything inside is dead.
const TEARDOWN: Duration = Duration::from_secs(5);

/// Signals that end most programs; TERM has its own way.
const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// A second TERM within this time is the same one: `timeout` sends it to the process and to its group.
const SAME_SIGNAL: Duration = Duration::from_millis(200);

/// A launcher under way.
#[derive(Debug)]
pub struct Started {
    /// Our child.
    pub launcher: Pid,
    /// Our end of the control socket.
    pub control: Outer,
    /// Signals to us and changes of our children.
    pub signals: SignalFd,
    /// The launcher's standard error.
    pub messages: Messages,
    /// Whether no target is to be started.
    pub rehearsal: bool,
}

/// What a launcher program prints, kept in memory: it must not mix with what the target prints.
#[derive(Debug)]
pub struct Messages(pub(super) File);

impl Messages {
    /// All that was printed so far.
    pub fn text(&mut self) -> String {
        const LIMIT: u64 = 64 << 10;
        let mut bytes = Vec::new();
        let read = self.0.seek(SeekFrom::Start(0)).and_then(|_| (&self.0).take(LIMIT).read_to_end(&mut bytes));
        if read.is_err() {
            bytes.clear();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Watches until the target has ended and nothing of the run is left.
#[must_use]
pub fn watch(plan: &Plan, host: &Host, started: Started, terminal: Option<Terminal>) -> Outcome {
    let Started { launcher, control, signals, messages, rehearsal } = started;
    let mut watch = Watch {
        plan,
        host,
        launcher,
        control: Some(control),
        signals,
        messages,
        rehearsal,
        init: None,
        phase: Phase::Starting,
        committed: false,
        launcher_ended: false,
        asked: None,
        terminated_at: None,
        deadline: Some(Instant::now() + SETUP),
        stops: Stops { along: !plan.new_session, due: false, continuing: 0 },
        unsent: Vec::new(),
        last: None,
    };
    let outcome = match watch.until_the_end() {
        Ok(outcome) => outcome,
        Err(error) => {
            let committed = watch.committed;
            watch.kill_all();
            // Never a second attempt for what may have started.
            if committed { killed() } else { Outcome::NotStarted(error.into()) }
        }
    };
    watch.bury();
    let outcome = match (outcome, watch.asked) {
        // Asked to end before there was a target: no failure, and above all no other attempt.
        (Outcome::NotStarted(_), Some(signal)) => Outcome::Ended(Status::Signaled(signal as i32)),
        (outcome, _) => outcome,
    };
    if let Some(terminal) = terminal {
        terminal.restore(matches!(outcome, Outcome::Ended(Status::Signaled(_))));
        if matches!(outcome, Outcome::Ended(Status::Signaled(libc::SIGINT))) {
            return Outcome::Ended(Status::Interrupted);
        }
    }
    outcome
}

/// What became of a target that we ended, or whose end nobody told us.
fn killed() -> Outcome {
    Outcome::Ended(Status::Signaled(Signal::SIGKILL as i32))
}

struct Watch<'a> {
    plan: &'a Plan,
    host: &'a Host,
    launcher: Pid,
    control: Option<Outer>,
    signals: SignalFd,
    messages: Messages,
    /// Whether the inner stage only gets ready.
    rehearsal: bool,
    /// Process 1 of the sandbox, or the inner stage where there is none.
    init: Option<PidFd>,
    phase: Phase,
    /// Whether the target may have started, although nobody has said yet that it has.
    committed: bool,
    launcher_ended: bool,
    /// The first signal that asked us to end while there was no target.
    asked: Option<Signal>,
    terminated_at: Option<Instant>,
    /// When to kill: the start takes too long, or the grace after TERM is over.
    deadline: Option<Instant>,
    stops: Stops,
    /// Signals for which the socket had no room, each once.
    unsent: Vec<Signal>,
    last: Option<Outcome>,
}

/// What the inner stage has told us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing of a target yet.
    Starting,
    /// The target runs.
    Running,
    /// How it ended: there is nothing more to hear.
    Over,
}

/// Stopping with the target.
struct Stops {
    /// Whether we stop when the target stops.
    along: bool,
    /// Whether it stopped and we have not yet.
    due: bool,
    /// How many times SIGCONT was passed on and not yet answered: until then a report of a stop is an old one.
    continuing: u32,
}

impl Watch<'_> {
    fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    fn until_the_end(&mut self) -> io::Result<Outcome> {
        while let Some(control) = &self.control {
            // What waits for the last report and signal.
            let due = self.launcher_ended || (self.stops.due && self.stops.continuing == 0);
            let timeout = match self.deadline {
                _ if due => PollTimeout::ZERO,
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
            let room = if self.unsent.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
            let mut polled = [
                PollFd::new(control.as_fd(), PollFlags::POLLIN | room),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut polled, timeout) {
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let [reported, signalled] =
                polled.map(|fd| fd.revents().is_some_and(|events| !(events - PollFlags::POLLOUT).is_empty()));
            self.send();
            if signalled {
                self.take_signals()?;
            }
            if reported {
                self.take_report()?;
            }
            if due && !signalled && !reported {
                if self.launcher_ended {
                    // Killed by somebody: what it leaves behind may live, or wait for it for ever.
                    self.kill_all();
                } else {
                    self.stop()?;
                }
            }
        }
        Ok(match self.last.take() {
            Some(outcome) => outcome,
            None if self.committed => killed(),
            None => Outcome::NotStarted(self.why_not_started()),
        })
    }

    fn take_report(&mut self) -> io::Result<()> {
        let Some(control) = &self.control else { return Ok(()) };
        let Some((report, handle)) = control.receive()? else {
            self.control = None;
            return Ok(());
        };
        if !self.expects(report) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a report out of order"));
        }
        match report {
            Report::Alive => {
                self.init = handle.map(PidFd::from);
                // All mounts are made.
                traces::clear(self.plan);
            }
            Report::Ready => self.last = Some(Outcome::Ended(Status::Done)),
            Report::Failed(..) if self.is_running() => self.last = Some(killed()),
            Report::Failed(step, errno) => {
                let reason = if errno == 0 { String::new() } else { format!(": {}", sys::process::reason(errno)) };
                self.last = Some(Outcome::NotStarted(Reason {
                    step: Some(step),
                    text: format!("cannot {}{reason}", step.text()),
                    said: String::new(),
                    hung: false,
                }));
            }
            Report::Executing => self.committed = true,
            Report::NotExecuted(errno) => self.last = Some(Outcome::NotExecuted(errno)),
            Report::Started => {
                self.phase = Phase::Running;
                // Whoever reads what the target writes must see the end when the target closes it. Not before now: a
                // second attempt would need them. Failing only means that the end is seen later.
                let _late = sys::fd::silence(&[0, 1]);
                for number in &self.plan.keep_fds {
                    drop(sys::fd::adopt(*number));
                }
                if self.terminated_at.is_none() {
                    self.deadline = None;
                }
            }
            Report::Stopped => self.stops.due = self.stops.along,
            Report::Continued => {
                self.stops.continuing = self.stops.continuing.saturating_sub(1);
                self.stops.due = false;
                self.stops.along = !self.plan.new_session;
            }
            Report::Exited(code) => {
                self.last = Some(Outcome::Ended(Status::Exited(u8::try_from(code).unwrap_or(u8::MAX - 1))));
            }
            Report::Signaled(signal) => self.last = Some(Outcome::Ended(Status::Signaled(signal))),
        }
        if self.last.is_some() {
            // The last word. The end of the socket may not come: a launcher can hold it open.
            self.phase = Phase::Over;
            self.control = None;
        }
        Ok(())
    }

    /// Whether an inner stage can say this now. A launcher that makes reports up has started nothing.
    fn expects(&self, report: Report) -> bool {
        match report {
            Report::Alive => self.init.is_none(),
            Report::Failed(..) => true,
            Report::Ready => self.init.is_some() && self.rehearsal,
            Report::Executing => self.init.is_some() && !self.rehearsal && !self.committed,
            Report::NotExecuted(_) | Report::Started => self.committed && !self.is_running(),
            Report::Stopped | Report::Continued | Report::Exited(_) | Report::Signaled(_) => self.is_running(),
        }
    }

    fn take_signals(&mut self) -> io::Result<()> {
        while let Some(info) = self.signals.read_signal()? {
            let Some(signal) = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok())
            else {
                continue;
            };
            match signal {
                // Left to be taken in by `bury`. What became of the target is what the control socket says.
                Signal::SIGCHLD => self.launcher_ended = sys::process::has_ended(self.launcher),
                Signal::SIGTERM => self.terminate(),
                // A session of its own is an orphaned process group, in which the kernel ignores SIGTSTP.
                Signal::SIGTSTP if self.plan.new_session && !self.host.inherited.ignores(signal as i32) => {
                    self.stops.along = true;
                    self.forward(Signal::SIGSTOP);
                }
                Signal::SIGCONT => {
                    self.stops.due = false;
                    self.forward(signal);
                }
                signal => {
                    if !self.is_running() && ENDING.contains(&signal) && !self.host.inherited.ignores(signal as i32) {
                        self.asked.get_or_insert(signal);
                        self.hurry();
                    }
                    self.forward(signal);
                }
            }
        }
        Ok(())
    }

    /// Passes a signal on. One that already waits is the same one, as in the kernel.
    fn forward(&mut self, signal: Signal) {
        if !self.unsent.contains(&signal) {
            self.unsent.push(signal);
        }
        self.send();
    }

    fn send(&mut self) {
        while let (Some(control), Some(signal)) = (&self.control, self.unsent.first()) {
            match control.signal(*signal as i32) {
                Ok(()) => self.stops.continuing += u32::from(*signal == Signal::SIGCONT),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Nobody left to tell is what the next read of the socket says.
                Err(_) => {}
            }
            self.unsent.remove(0);
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
                if !self.is_running() {
                    self.asked.get_or_insert(Signal::SIGTERM);
                }
                self.hurry();
                self.forward(Signal::SIGTERM);
            }
        }
    }

    /// Grants no more than the grace from now on.
    fn hurry(&mut self) {
        let grace = Instant::now().checked_add(self.plan.kill_after);
        self.deadline = match (self.deadline, grace) {
            (Some(earlier), Some(grace)) => Some(earlier.min(grace)),
            (earlier, grace) => grace.or(earlier),
        };
    }

    fn expire(&mut self) {
        if self.committed {
            self.last.get_or_insert(killed());
        } else {
            let seconds = SETUP.as_secs();
            self.last = Some(Outcome::NotStarted(Reason {
                step: None,
                text: format!("it did not start the command within {seconds} s"),
                said: self.messages.text(),
                hung: true,
            }));
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
            None if self.is_running() => {}
            None => {
                let _sent = kill(self.launcher, Signal::SIGKILL);
            }
        }
    }

    /// Stops as the target did, so that the shell gets its terminal back; goes on when somebody says so.
    fn stop(&mut self) -> io::Result<()> {
        self.stops.due = false;
        if self.plan.new_session {
            self.stops.along = false;
        }
        raise(Signal::SIGSTOP)?;
        Ok(())
    }

    fn why_not_started(&mut self) -> Reason {
        let said = self.messages.text();
        Reason { step: None, text: "it ended before it started the command".into(), said, hung: false }
    }

    /// Waits for the launcher and for all that fell to us, and kills what does not go.
    ///
    /// Without a sandbox only the inner stage is awaited: what the target left running is not ours to end, unless we or
    /// somebody else had to end the target.
    fn bury(&mut self) {
        self.control = None;
        let deadline = Instant::now() + TEARDOWN;
        let mut launcher_gone = false;
        loop {
            match changed_child() {
                Ok(None) => {}
                Ok(Some((pid, Change::Exited(_) | Change::Signaled(_)))) => {
                    launcher_gone |= pid == self.launcher;
                    continue;
                }
                Ok(Some((_, Change::Stopped | Change::Continued))) | Err(Errno::EINTR) => continue,
                Err(_) => return,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let all = self.plan.backend.has_view() || self.phase != Phase::Over;
            match (all, launcher_gone) {
                (false, true) => return,
                (true, true) => return sys::process::kill_children(&self.host.children),
                (_, false) if left.is_zero() => return sys::process::kill_children(&self.host.children),
                (_, false) => {}
            }
            let mut polled = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            // A failed poll only means looking again too early.
            let _woken = poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
            // Nobody is left to pass one on to, but one that asks us to end must not be lost.
            let _noted = self.take_signals();
        }
    }
}
