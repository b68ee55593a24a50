//! Watching a run from outside: signals, stops, deadlines, and the certainty that nothing is left.
//!
//! Nothing here depends on a process inside being honest: a kill goes to process 1 of the sandbox by its handle.

mod burial;
mod limits;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, raise};
use nix::unistd::Pid;

use limits::{Cpu, Waker};

use super::account::{Account, End, Usage};
use super::cgroup::Group;
use super::control::{GO_ON, Message, Outer, Report, to_group};
use super::door::Keeper;
use super::fault::Fault;
use super::outcome::{Outcome, Reason, Refusal, Used};
use super::output::Output;
use super::strace::Listener;
use super::terminal::Terminal;
use super::traces;
use crate::backend::{Backend, seatbelt};
use crate::diagnose;
use crate::exit::Status;
use crate::host::Host;
use crate::plan::Plan;
use crate::policy::limits::Limit;
use crate::sys;
use crate::sys::pidfd::PidFd;
use crate::sys::signals::{Arrivals, Signals};

/// How long a launcher may take until the target runs. Ample: a start takes milliseconds, and hundreds at once seconds.
const SETUP: Duration = Duration::from_secs(10);

/// The same for an engine, which unpacks an image where it has to.
const SETUP_BY_ENGINE: Duration = Duration::from_mins(1);

/// How long to wait for the launcher once everything inside is dead.
const TEARDOWN: Duration = Duration::from_secs(5);

/// The same for an engine, which removes the container.
const TEARDOWN_BY_ENGINE: Duration = Duration::from_secs(30);

/// How long process 1 of a sandbox has for ending all others and taking them in, before it is killed itself.
const MERCY: Duration = Duration::from_millis(250);

/// Signals that ask for an end; TERM has its own way.
const ENDING: Signals = Signals::of(&[Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT]);

/// Signals that end a program which has no plans for them: while there is no target, the run. Messages between programs,
/// SIGUSR1 and the like, are none of these and wait for the target.
const FATAL: Signals = ENDING
    .and(Signals::of(&[
        Signal::SIGILL,
        Signal::SIGTRAP,
        Signal::SIGABRT,
        Signal::SIGBUS,
        Signal::SIGFPE,
        Signal::SIGSEGV,
        Signal::SIGALRM,
        Signal::SIGXCPU,
        Signal::SIGXFSZ,
        Signal::SIGVTALRM,
        Signal::SIGPROF,
        Signal::SIGIO,
        Signal::SIGSYS,
    ]))
    .and(Signals::FATAL_HERE);

/// What is watched for while nothing is built that could have a target.
pub(super) const WATCHED_EARLY: Signals = FATAL.and(Signals::of(&[Signal::SIGTERM, Signal::SIGCHLD]));

/// Signals that keys of a terminal send.
const KEYS: Signals = Signals::of(&[Signal::SIGINT, Signal::SIGQUIT]);

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
    pub signals: Arrivals,
    /// The launcher's standard error.
    pub messages: Messages,
    /// The target's output, where it goes through us.
    pub output: Option<Output>,
    /// The control group of the run.
    pub group: Option<Group>,
    /// What is read of the tracer.
    pub trace: Option<Listener>,
    /// The process at the door of a container.
    pub(super) keeper: Option<Keeper>,
    /// A process that serves the run and is no part of it.
    pub proxy: Option<Pid>,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a launcher was started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Running the target.
    Target,
    /// Getting ready and starting nothing.
    Rehearsal,
    /// Trying something in place of the target.
    Trial,
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
pub fn watch(plan: &Plan, host: &Host, started: Started, terminal: Option<Terminal>) -> (Outcome, Account) {
    let Started { launcher, control, signals, messages, output, group, trace, keeper, proxy, purpose } = started;
    let contained = keeper.is_some();
    let mut watch = Watch {
        plan,
        host,
        launcher,
        control: Some(control),
        signals,
        messages,
        output,
        group,
        trace,
        keeper,
        proxy,
        purpose,
        init: None,
        phase: Phase::Starting,
        committed: false,
        launcher_ended: false,
        hung: false,
        asked: None,
        passed_on: Signals::NONE,
        terminated_at: None,
        mercy: None,
        deadline: Some(Instant::now() + if contained { SETUP_BY_ENGINE } else { SETUP }),
        limit_at: None,
        cpu: None,
        started_at: None,
        account: Account::default(),
        usage: Usage::default(),
        stops: Stops { along: !plan.new_session, due: false, continuing: 0 },
        unsent: Vec::new(),
        last: None,
        launcher_status: None,
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
    watch.leave_door();
    watch.drain();
    if watch.account.ended_by.is_none() && watch.was_ended_for_memory() {
        watch.account.ended_by = Some(Limit::Memory);
    }
    let outcome = match (outcome, watch.asked, watch.account.ended_by) {
        // Asked to end before there was a target: no failure, and above all no other attempt.
        (Outcome::NotStarted(_), Some(signal), _) => Outcome::Ended(Status::Signaled(signal)),
        (Outcome::NotStarted(reason), ..) if watch.is_nested() => Outcome::NotStarted(reason.nested()),
        (Outcome::Ended(_), _, Some(limit)) => Outcome::Ended(Status::Limited(limit)),
        (outcome, ..) => outcome,
    };
    let account = watch.account();
    if let Some(terminal) = terminal {
        terminal.restore(matches!(outcome, Outcome::Ended(Status::Signaled(_) | Status::Limited(_))));
        if terminal.shared && matches!(outcome, Outcome::Ended(Status::Signaled(libc::SIGINT))) {
            return (Outcome::Ended(Status::Interrupted), account);
        }
    }
    (outcome, account)
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
    signals: Arrivals,
    messages: Messages,
    output: Option<Output>,
    group: Option<Group>,
    trace: Option<Listener>,
    keeper: Option<Keeper>,
    proxy: Option<Pid>,
    purpose: Purpose,
    /// Process 1 of the sandbox, or the inner stage where there is none.
    init: Option<PidFd>,
    phase: Phase,
    /// Whether the target may have started, although nobody has said yet that it has.
    committed: bool,
    launcher_ended: bool,
    /// Whether the start took too long.
    hung: bool,
    /// The first signal that asked us to end while there was no target.
    asked: Option<i32>,
    /// Every signal that was passed on.
    passed_on: Signals,
    terminated_at: Option<Instant>,
    /// Until when process 1 may end and take in everything else by itself.
    mercy: Option<Instant>,
    /// When to kill: the start takes too long, or the grace after TERM is over.
    deadline: Option<Instant>,
    /// When the time limit is reached.
    limit_at: Option<Instant>,
    /// Processor time of the whole tree, where it is limited and counted.
    cpu: Option<Cpu>,
    /// When the target started.
    started_at: Option<Instant>,
    account: Account,
    /// What all that was taken in has used.
    usage: Usage,
    stops: Stops,
    /// Signals for which the socket had no room, each once.
    unsent: Vec<i32>,
    last: Option<Outcome>,
    /// The status with which the launcher exited, once it is taken in.
    launcher_status: Option<i32>,
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
            let left = self.next_wake().map(|wake| wake.saturating_duration_since(Instant::now()));
            let late = left.is_some_and(|left| left.is_zero());
            let timeout = match left {
                _ if due || late => PollTimeout::ZERO,
                None => PollTimeout::NONE,
                // Up to the next millisecond, so as not to spin through the last one.
                Some(left) => PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX),
            };
            let room = if self.unsent.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
            let mut polled = vec![
                PollFd::new(control.as_fd(), PollFlags::POLLIN | room),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            ];
            polled.extend(self.group.iter().filter_map(Group::events).map(|(fd, events)| PollFd::new(fd, events)));
            let of_output = polled.len();
            polled.extend(self.output.iter().flat_map(Output::interests));
            polled.extend(self.trace.iter().filter_map(Listener::interest));
            match poll(&mut polled, timeout) {
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let woken: Vec<_> = polled.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
            drop(polled);
            let reported = !(woken[0] - PollFlags::POLLOUT).is_empty();
            let signalled = !woken[1].is_empty();
            self.send();
            if woken[of_output..].iter().any(|events| !events.is_empty()) {
                self.pump();
            }
            if woken[2..of_output].iter().any(|events| !events.is_empty()) {
                self.take_shortage();
            }
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
            // What was told in the meantime comes first: a target that ended in time has ended in time.
            if late && self.control.is_some() {
                self.take_time();
            }
        }
        Ok(match self.last.take() {
            Some(outcome) => outcome,
            None if self.committed => killed(),
            None => Outcome::NotStarted(self.why_not_started()),
        })
    }

    fn pump(&mut self) {
        self.trace.iter_mut().for_each(Listener::pump);
        let Some(output) = &mut self.output else { return };
        output.pump();
        if output.ends_the_run() {
            self.end_for(Limit::Output);
        }
    }

    fn take_report(&mut self) -> io::Result<()> {
        let Some(control) = &self.control else { return Ok(()) };
        let Some(Message { report, handle, more, sender }) = control.receive()? else {
            self.control = None;
            return Ok(());
        };
        if !self.expects(report) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a report out of order"));
        }
        match report {
            Report::Alive => {
                self.init = PidFd::of_message(handle, self.launcher);
                let first = if self.keeper.is_some() { Pid::from_raw(sender) } else { self.launcher };
                if let Some(Err(error)) = self.group.as_mut().map(|group| group.joined(first)) {
                    self.last = Some(self.refuse_without_group(&error));
                } else if let (Some(control), true) = (&self.control, self.keeper.is_some()) {
                    control.signal(GO_ON)?;
                }
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
                    ..Reason::default()
                }));
            }
            Report::Executing => self.committed = true,
            Report::Target(moment) => {
                // Then, and not when it is said to run: it may be quick enough to stop who would say so.
                let ago = moment.elapsed().min(SETUP);
                let now = Instant::now().checked_sub(ago).unwrap_or_else(Instant::now);
                self.started_at = Some(now);
                self.account.started_at = SystemTime::now().checked_sub(ago);
                self.account.pid = Some(sender);
                self.cpu = self.plan.limits.cpu_time.zip(self.group.as_ref().and_then(Group::cpu_time)).map(Cpu::new);
                let timeout = self.plan.limits.timeout.filter(|_| self.purpose == Purpose::Target);
                self.limit_at = timeout.and_then(|timeout| now.checked_add(timeout));
            }
            Report::NotExecuted(errno) => {
                self.started_at = None;
                self.account = Account::default();
                self.last = Some(Outcome::NotExecuted(errno));
            }
            Report::Unfit => {
                let refusal = Refusal::read(&more);
                let refusal = refusal.ok_or_else(|| io::Error::other("a refusal without a reason"))?;
                self.last = Some(Outcome::Unfit(refusal));
            }
            Report::Unbuilt => {
                let fault = Fault::read(&more).ok_or_else(|| io::Error::other("a failure without a reason"))?;
                self.last = Some(Outcome::NotStarted(fault.into()));
            }
            Report::Used => self.usage.add(Used::read(&more).unwrap_or_default()),
            Report::Tried(act, answer) => self.account.tried.push((act, answer)),
            Report::Started if self.purpose == Purpose::Trial => self.phase = Phase::Running,
            Report::Started => {
                self.phase = Phase::Running;
                // Passed on to the target, which may have plans for it.
                self.asked = self.asked.filter(|number| ENDING.has(*number) || *number == libc::SIGTERM);
                // Whoever reads what the target writes must see the end when the target closes it. Not before now: a
                // second attempt would need them. Failing only means that the end is seen later.
                let _late = sys::fd::silence(&[0, 1]);
                for number in &self.plan.keep_fds {
                    drop(sys::fd::adopt(*number));
                }
                if self.terminated_at.is_none() && self.account.ended_by.is_none() {
                    self.deadline = None;
                }
            }
            Report::Spent => {
                self.account.limits_hit.insert(Limit::Cpu);
            }
            Report::Stopped => self.stops.due = self.stops.along,
            Report::Resumed => self.stops.due = false,
            Report::Continued => {
                self.stops.continuing = self.stops.continuing.saturating_sub(1);
                self.stops.due = false;
            }
            Report::Exited(code) => {
                self.account.end = Some(End::Exited(code));
                self.last = Some(Outcome::Ended(Status::Exited(u8::try_from(code).unwrap_or(u8::MAX - 1))));
            }
            Report::Signaled(signal) => {
                self.account.end = Some(End::Signaled(signal));
                self.last = Some(Outcome::Ended(Status::Signaled(signal)));
            }
        }
        if self.last.is_some() {
            if let Some(group) = &self.group {
                group.note();
            }
            // The last word. The end of the socket may not come: a launcher can hold it open.
            self.phase = Phase::Over;
            self.control = None;
            self.account.wall = self.started_at.map(|start| start.elapsed());
        }
        Ok(())
    }

    /// Whether an inner stage can say this now. A launcher that makes reports up has started nothing.
    fn expects(&self, report: Report) -> bool {
        match report {
            Report::Alive | Report::Unbuilt => self.init.is_none(),
            Report::Failed(..) => true,
            Report::Ready => self.init.is_some() && self.purpose == Purpose::Rehearsal,
            Report::Executing => self.init.is_some() && self.purpose != Purpose::Rehearsal && !self.committed,
            Report::Target(_) => self.committed && self.started_at.is_none(),
            Report::Tried(..) => self.purpose == Purpose::Trial && self.started_at.is_some() && !self.is_running(),
            Report::NotExecuted(_) | Report::Started => self.started_at.is_some() && !self.is_running(),
            Report::Unfit => self.keeper.is_some() && self.init.is_some() && !self.committed,
            Report::Used
            | Report::Spent
            | Report::Stopped
            | Report::Continued
            | Report::Resumed
            | Report::Exited(_)
            | Report::Signaled(_) => self.is_running(),
        }
    }

    fn take_signals(&mut self) -> io::Result<()> {
        while let Some((number, sender)) = self.signals.next_from()? {
            let ignored = self.host.inherited.ignores(number);
            match number {
                // Left to be taken in by `bury`. What became of the target is what the control socket says.
                libc::SIGCHLD => self.launcher_ended = sys::process::has_ended(self.launcher),
                libc::SIGTERM => self.terminate(),
                // A session of its own is an orphaned process group, in which the kernel ignores SIGTSTP.
                libc::SIGTSTP if self.plan.new_session && !ignored => {
                    self.stops.along = true;
                    self.forward(libc::SIGSTOP);
                }
                libc::SIGCONT => {
                    self.stops.due = false;
                    self.stops.along = !self.plan.new_session;
                    self.forward(number);
                }
                number => {
                    if ENDING.has(number) && !ignored {
                        self.account.asked.get_or_insert(number);
                    }
                    if FATAL.has(number) && !ignored && !self.is_running() {
                        self.asked.get_or_insert(number);
                        self.hurry();
                    }
                    self.passed_on.add(number);
                    // A key of the terminal is for the whole group in front, which in a session of its own is not there.
                    let key = sender == 0 && self.plan.new_session && KEYS.has(number);
                    self.forward(if key { to_group(number) } else { number });
                }
            }
        }
        Ok(())
    }

    /// Passes a signal on. One that already waits is the same one, as in the kernel.
    fn forward(&mut self, number: i32) {
        if !self.unsent.contains(&number) {
            self.unsent.push(number);
        }
        self.send();
    }

    fn send(&mut self) {
        while let (Some(control), Some(number)) = (&self.control, self.unsent.first()) {
            match control.signal(*number) {
                Ok(()) => self.stops.continuing += u32::from(*number == libc::SIGCONT),
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
                    self.asked.get_or_insert(libc::SIGTERM);
                }
                self.hurry();
                self.forward(libc::SIGTERM);
            }
        }
    }

    /// Stops as the target did, so that the shell gets its terminal back; goes on when somebody says so.
    fn stop(&mut self) -> io::Result<()> {
        self.stops.due = false;
        if self.plan.new_session {
            self.stops.along = false;
        }
        let waker = match &self.control {
            Some(control) => Some(Waker::start(control, [self.deadline, self.limit_at].into_iter().flatten().min())?),
            None => None,
        };
        raise(Signal::SIGSTOP)?;
        if let Some(waker) = waker {
            waker.end();
        }
        Ok(())
    }

    /// Whether the launcher was refused because there is such a sandbox around us already.
    fn is_nested(&self) -> bool {
        let refused = |status| seatbelt::is_nested(status, self.init.is_some());
        self.plan.backend == Backend::Seatbelt && self.launcher_status.is_some_and(refused)
    }

    fn why_not_started(&mut self) -> Reason {
        let mut said = self.messages.text();
        if self.keeper.is_some() {
            said = diagnose::said_by_engine(&said);
        }
        Reason { text: "it ended before it started the command".into(), said, ..Reason::default() }
    }
}
