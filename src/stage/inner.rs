//! The inner stage: verifies that it is where it has to be, starts the target, waits for it.
//!
//! Inside a sandbox it is process 1, not dumpable, and everything dies with it. It trusts nothing but the hand-off: no
//! variable, no file of the view. It prints nothing; what goes wrong it reports on the control socket.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid, getpgrp, getpid};

use super::confined::{self, Clerk, Switch};
use super::contained::{fit, wait_for_word};
use super::control::{Inner, Report, Step, WATCHED};
use super::handoff::{self, Handoff, MARKER};
use super::outcome::{Refusal, Used};
use super::way_out::{self, Wanted};
use super::{inside, left, look, trial};
use crate::sys;
use crate::sys::process::{Change, Moment, changed_child, changed_child_seen, own_time, soft_cpu_limit};
use crate::sys::signals::{Arrivals, Signals};

/// The status of a stage that could not do its work; nobody takes it for the target's, since a report goes before it.
pub(super) const FAILED: i32 = 125;

/// How long the same signal may take to come to us by way of the outer stage. Ample: both get it at once.
const SAME_SIGNAL: Duration = Duration::from_secs(2);

/// Signals by which somebody asks for an end, which a stopped target could not hear.
const URGENT: Signals = Signals::of(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT]);

/// Becomes the inner stage if the outer stage really started this process as one; returns if not.
///
/// The marker only says where to look. The hand-off has to be a memory file that nobody can change, with the nonce of the
/// marker in it. A marker from anywhere else is ignored, and the process goes on as an ordinary call.
pub fn claim() {
    let Some(marker) = std::env::var_os(MARKER) else { return };
    let Some((place, nonce)) = marker.to_str().and_then(|text| text.split_once(' ')) else { return };
    let handoff = if place.starts_with('/') {
        handed_over(place, nonce)
    } else {
        place.parse().ok().and_then(sys::fd::lend).and_then(|file| handoff::read(file, nonce).ok())
    };
    let Some(handoff) = handoff else { return };
    // Without isolation the outer stage needs no new program; whoever asks for that by a marker made it up.
    if handoff.header.isolation.is_none() {
        return;
    }
    let Some(control) = sys::fd::adopt(handoff.header.control) else { return };
    let control = Inner::from(control);
    let failure = match run(&handoff, &control) {
        Ok(status) => sys::process::exit_now(status),
        Err(failure) => failure,
    };
    if control.report(failure.report(), None).is_err() {
        // The outer stage is gone, or there never was one: then this is somebody's terminal.
        let _told = writeln!(io::stderr(), "sandbox-run: cannot go on with a run that nobody started: {MARKER} is set");
    }
    sys::process::exit_now(FAILED);
}

/// What waits at a door of a container, for its first process and nobody else.
///
/// Whoever was started with words has something else to do, whatever the marker says.
fn handed_over(door: &str, nonce: &str) -> Option<Handoff> {
    if getpid() != Pid::from_raw(1) || std::env::args_os().count() > 1 {
        return None;
    }
    match super::door::enter(door, nonce) {
        Ok(handoff) => Some(handoff),
        Err(error) => {
            let reason = sys::process::describe(&error);
            let _told = writeln!(io::stderr(), "Error: cannot reach the process that wants this container: {reason}");
            sys::process::exit_now(FAILED)
        }
    }
}

/// Does the inner stage's work in this process, which was forked for it.
#[must_use]
pub fn in_process(handoff: &Handoff, control: &Inner) -> Infallible {
    match run(handoff, control) {
        Ok(status) => sys::process::exit_now(status),
        Err(failure) => {
            let _told = control.report(failure.report(), None);
            // Not process 1, with which everything would end: the target may run already.
            sys::process::kill_children(&[], &mut |_, _| {});
            sys::process::exit_now(FAILED)
        }
    }
}

/// A step that failed and its error number, 0 when there is none.
pub(super) struct Failure(pub(super) Step, pub(super) i32);

impl Failure {
    fn report(&self) -> Report {
        Report::Failed(self.0, self.1)
    }
}

/// Names the step under which an error is reported.
pub(super) trait At<T> {
    fn at(self, step: Step) -> Result<T, Failure>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.map_err(|error| Failure(step, error.raw_os_error().unwrap_or(0)))
    }
}

impl<T> At<T> for nix::Result<T> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.map_err(|errno| Failure(step, errno as i32))
    }
}

fn run(handoff: &Handoff, control: &Inner) -> Result<i32, Failure> {
    let header = &handoff.header;
    if let Some(container) = &header.container {
        sys::process::set_umask(container.umask);
    }
    if header.isolation.is_some() {
        inside::shut()?;
    }
    if header.confine.is_some() {
        // What the caller has open would leave no room for what has to be opened before the target is there.
        let streams = header.streams.iter().flatten().copied();
        let way_out = header.way_out.as_ref().and_then(Wanted::number);
        let kept: Vec<_> =
            streams.chain(header.keep.iter().copied()).chain(way_out).chain([control.as_fd().as_raw_fd()]).collect();
        sys::fd::close_others(&kept).at(Step::Descriptors)?;
    }
    let handle = sys::pidfd::PidFd::of_this_process().at(Step::Handle)?;
    control.report(Report::Alive, handle.as_ref().map(AsFd::as_fd)).at(Step::Handle)?;
    let early = if header.container.is_some() { wait_for_word(control)? } else { Vec::new() };
    look::verify(header)?;
    if let Some(isolation) = &header.isolation {
        inside::enter(handoff, isolation)?;
        // Out of the caller's session, whose priority can be set by the name of any process that is in it.
        if header.new_session && nix::unistd::getsid(None) != Ok(getpid()) {
            nix::unistd::setsid().at(Step::Session)?;
        }
    }
    // Here and not in the target, which comes later.
    let mut left = header.left.as_ref().and_then(|wanted| Some((wanted, File::from(sys::fd::adopt(wanted.file)?))));
    if header.rehearsal {
        control.report(Report::Ready, None).at(Step::Handle)?;
        return Ok(0);
    }
    // Out of the caller's session, so that what is sent to the process group ends the target and leaves us to bury it.
    if header.confine.is_some() && header.new_session {
        nix::unistd::setsid().at(Step::Session)?;
    }
    if header.isolation.is_none() {
        // Orphans of the target come to us, so that a kill reaches them.
        sys::process::adopt_orphans().at(Step::Fork)?;
    }
    let mut streams = [None, None, None];
    for (slot, number) in streams.iter_mut().zip(header.streams) {
        if let Some(number) = number {
            let stream = sys::fd::adopt(number).ok_or(Failure(Step::Descriptors, libc::EBADF))?;
            *slot = Some(inside::stream(handoff, stream));
        }
    }
    let fitted = header.container.as_ref().map(|container| fit(handoff, container)).transpose();
    let fitted = match fitted {
        Ok(fitted) => fitted,
        Err(error) => {
            control.report_more(Report::Unfit, &Refusal::of(&error)).at(Step::Handle)?;
            return Ok(FAILED);
        }
    };
    let handoff = fitted.as_ref().unwrap_or(handoff);
    let header = &handoff.header;
    sys::fd::cloexec_all().at(Step::Descriptors)?;
    sys::signals::block_only(WATCHED).at(Step::Signals)?;
    let signals = Arrivals::of(WATCHED).at(Step::Signals)?;
    let (outcome, errors) = sys::fd::pipe().at(Step::Fork)?;
    let switch =
        header.way_out.as_ref().map(|wanted| lead_out(wanted, header.confine.is_some())).transpose()?.flatten();
    if outer_is_gone(control) {
        return Ok(FAILED);
    }
    // What was sent to the process group so far is not for this process, and there was no target to have it.
    while let Ok(Some(_)) = signals.next() {}
    control.report(Report::Executing, None).at(Step::Handle)?;
    // Nobody listens before the target is executed, and so not to what is only tried.
    let asking = header.confine.as_ref().filter(|_| handoff.trials.is_empty());
    let asking = asking.map(confined::pair).transpose().at(Step::Fork)?;
    let (ours, theirs) = asking.unzip();
    let way = Way { control, streams: &streams, asks: theirs.as_ref() };
    let target = sys::process::fork(|| start(handoff, &way, errors.into())).at(Step::Fork)?;
    drop((streams, theirs));
    release_descriptors(header.keep.iter().copied(), header.isolation.is_none()).at(Step::Descriptors)?;
    match outcome_of_start(outcome)? {
        None => control.report(Report::Started, None).at(Step::Handle)?,
        Some(errno) => {
            control.report(Report::NotExecuted(errno), None).at(Step::Handle)?;
            return Ok(FAILED);
        }
    }
    let _held = confined::held(&handoff.rules);
    let clerk = ours.and_then(|ours| Clerk::receive(&ours, &handoff.rules, switch));
    let shared_session = !header.new_session;
    let watch = Watch {
        control,
        clerk,
        signals,
        target,
        shared_session,
        apart: header.container.is_some(),
        cpu_time: header.rlimits.cpu_time(),
        seen: Vec::new(),
        stopped: false,
        urgent: false,
        ending: false,
    };
    watch.until_the_end(&early, &mut || {
        if let Some((wanted, file)) = left.take() {
            left::look(wanted, file, &handoff.writable);
        }
    })
}

/// Listens, or sees to it that each connection is made here where the network is `shared` with the host.
fn lead_out(wanted: &Wanted, shared: bool) -> Result<Option<Switch>, Failure> {
    if !shared {
        let channel = way_out::open(wanted).at(Step::WayOut)?;
        channel.map_or(Ok(()), |channel| way_out::trust(wanted, &channel)).at(Step::Trust)?;
        return Ok(None);
    }
    Switch::probe().at(Step::Connections)?;
    let switch = Switch::open(wanted).at(Step::WayOut)?;
    way_out::trust(wanted, switch.channel()).at(Step::Trust)?;
    Ok(Some(switch))
}

/// Whether the outer stage died before the target started: nothing else ends what it left behind.
fn outer_is_gone(control: &Inner) -> bool {
    let mut polled = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::ZERO).is_err()
        || polled[0].revents().is_none_or(|events| events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR))
}

/// Lets go of what belongs to the target, so that closing it there closes it for good.
fn release_descriptors(keep: impl Iterator<Item = RawFd>, streams_too: bool) -> io::Result<()> {
    for number in keep {
        drop(sys::fd::adopt(number));
    }
    if streams_too {
        sys::fd::silence(&[0, 1, 2])?;
    }
    Ok(())
}

/// In the child: everything between fork and exec. Never returns; failures go into the pipe.
fn start(handoff: &Handoff, way: &Way, errors: File) -> Infallible {
    let control = way.control;
    // Only its number is lost when nobody hears it.
    let _told = control.report(Report::Target(Moment::now()), None);
    let failure = prepare(handoff, way).err().unwrap_or_else(|| {
        if !handoff.trials.is_empty() {
            try_out(handoff, control);
        }
        let errno = execute(handoff);
        Failure(Step::Fork, errno as i32)
    });
    let executed = matches!(failure.0, Step::Fork);
    let mut record = [u8::from(executed), failure.0 as u8, 0, 0, 0, 0];
    record[2..].copy_from_slice(&failure.1.to_ne_bytes());
    let mut errors = errors;
    let _told = errors.write_all(&record);
    sys::process::exit_now(FAILED)
}

/// What the process that becomes the target has from the inner stage.
struct Way<'a> {
    control: &'a Inner,
    streams: &'a [Option<OwnedFd>; 3],
    /// Where to send what the filter asks on, if anybody listens.
    asks: Option<&'a OwnedFd>,
}

fn prepare(handoff: &Handoff, way: &Way) -> Result<(), Failure> {
    let header = &handoff.header;
    if header.new_session {
        nix::unistd::setsid().at(Step::Session)?;
    }
    for (number, stream) in (0..).zip(way.streams) {
        match stream {
            Some(stream) => sys::fd::place(stream, number).at(Step::Descriptors)?,
            None => sys::fd::close(number),
        }
    }
    for number in &header.keep {
        sys::fd::set_cloexec(*number, false).at(Step::Descriptors)?;
    }
    if let Some(confine) = &header.confine {
        confined::give_up_privileges(confine).map_err(|(step, errno)| Failure(step, errno))?;
    }
    nix::unistd::chdir(&handoff.workdir).at(Step::Workdir)?;
    sys::signals::restore(&header.inherited).at(Step::Signals)?;
    if let Some(confine) = &header.confine {
        let given: Vec<_> = (0..3).chain(header.keep.iter().copied()).filter_map(sys::fd::given).collect();
        let done = confined::confine(confine, &handoff.rules, &given, &handoff.seal);
        done.map_err(|(step, errno)| Failure(step, errno))?;
        // What the filter asks on is one more descriptor, for which a limit could leave no room.
        let step = if header.way_out.is_some() { Step::Connections } else { Step::Filter };
        confined::load(confine, way.asks).at(step)?;
        return header.rlimits.apply().at(Step::Limits);
    }
    if let Some(container) = &header.container {
        super::rlimits::inherit(&container.rlimits);
    }
    let Some(isolation) = &header.isolation else {
        // Nothing else ends it when this process is killed together with the outer stage.
        sys::process::end_with_parent().at(Step::Signals)?;
        return header.rlimits.apply().at(Step::Limits);
    };
    inside::confine(handoff, isolation)
}

/// In place of the target: does what it might, and says what came of it.
fn try_out(handoff: &Handoff, control: &Inner) -> Infallible {
    let rights = handoff.header.confine.is_some();
    for (act, answer) in handoff.trials.iter().flat_map(|path| trial::attempt(path, rights)) {
        // A missing answer is what the outer stage counts.
        let _told = control.report(Report::Tried(act, answer), None);
    }
    sys::process::exit_now(0)
}

/// Executes the target; a script without `#!` runs by `/bin/sh`, as `execvp` does it.
fn execute(handoff: &Handoff) -> Errno {
    let Handoff { program, argv, environment, .. } = handoff;
    let errno = sys::process::exec(program, argv, environment);
    if errno != Errno::ENOEXEC || !handoff.header.by_shell {
        return errno;
    }
    let mut by_shell = vec![c"sh".to_owned(), program.clone()];
    by_shell.extend(argv.iter().skip(1).cloned());
    sys::process::exec(c"/bin/sh", &by_shell, environment)
}

/// `None` when exec closed the pipe, the error number when exec failed.
fn outcome_of_start(outcome: OwnedFd) -> Result<Option<i32>, Failure> {
    let mut record = Vec::new();
    File::from(outcome).read_to_end(&mut record).at(Step::Fork)?;
    match record[..] {
        [] => Ok(None),
        [executed, step, a, b, c, d] => {
            let errno = i32::from_ne_bytes([a, b, c, d]);
            if executed == 1 { Ok(Some(errno)) } else { Err(Failure(Step::from_number(step), errno)) }
        }
        _ => Err(Failure(Step::Fork, 0)),
    }
}

/// Waiting for the target and passing signals on.
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
struct Watch<'a> {
    control: &'a Inner,
    clerk: Option<Clerk<'a>>,
    signals: Arrivals,
    target: Pid,
    shared_session: bool,
    /// Whether somebody else than the outer stage hears what was used.
    apart: bool,
    /// What each process may use, in seconds.
    cpu_time: Option<u64>,
    /// Signals that reached this process because they were sent to the whole process group, the target included.
    seen: Vec<(i32, Instant)>,
    stopped: bool,
    /// Whether a signal just passed on must not wait for a stopped target to go on.
    urgent: bool,
    /// Whether it was asked to end.
    ending: bool,
}

impl Watch<'_> {
    /// `early` are signals that were to be passed on before there was a target; `look` is called once it has ended, while
    /// everything is still there.
    fn until_the_end(mut self, early: &[i32], look: &mut dyn FnMut()) -> Result<i32, Failure> {
        for number in early {
            self.pass_on(*number);
        }
        let mut continued = false;
        loop {
            if let Some(end) = self.reap()? {
                look();
                if self.apart {
                    // Whoever takes this process in is not the outer stage.
                    self.end_the_rest();
                    let _told = self.control.report_more(Report::Used, &Used::now());
                }
                let _told = self.control.report(end, None);
                self.end_the_rest();
                return Ok(0);
            }
            // It has stopped again since: what was told of that came before the answer, and counted for an old stop.
            if std::mem::take(&mut continued) && self.stopped {
                self.control.report(Report::Stopped, None).at(Step::Signals)?;
            }
            if (std::mem::take(&mut self.urgent) || self.ending) && self.stopped {
                let _sent = kill(self.target, Signal::SIGCONT);
            }
            let mut polled = vec![
                PollFd::new(self.control.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            ];
            let asked = self.clerk.as_ref().and_then(Clerk::waiting);
            polled.extend(asked.map(|listener| PollFd::new(listener, PollFlags::POLLIN)));
            polled.extend(self.clerk.iter().flat_map(Clerk::connections));
            let patience = self.clerk.as_ref().map_or(PollTimeout::NONE, Clerk::patience);
            match poll(&mut polled, patience) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(Failure(Step::Signals, errno as i32)),
            }
            let spoken = polled[0].revents().is_some_and(|events| !events.is_empty());
            let answers = asked.is_some();
            let asked = polled.get(2).filter(|_| answers).and_then(PollFd::revents).filter(|events| !events.is_empty());
            self.note_group_signals();
            if let (Some(clerk), Some(events)) = (&mut self.clerk, asked) {
                clerk.serve(!events.contains(PollFlags::POLLIN));
            }
            if let Some(clerk) = &mut self.clerk {
                clerk.connect();
            }
            if spoken {
                let Ok(Some(number)) = self.control.receive() else {
                    // The outer stage is gone, or wants everything to end.
                    if getpid() != Pid::from_raw(1) {
                        // By its own number, should nobody say which children there are.
                        let _sent = kill(self.target, Signal::SIGKILL);
                        if !self.shared_session {
                            sys::process::end_session(self.target);
                        }
                        sys::process::kill_children(&[], &mut |_, _| {});
                    }
                    self.end_the_rest();
                    return Ok(FAILED);
                };
                self.pass_on(number);
                continued = number == Signal::SIGCONT as i32;
            }
        }
    }

    /// As process 1: kills all others and takes them in, so that what they used is known. The kernel would kill them with us,
    /// and forget that.
    fn end_the_rest(&self) {
        const PATIENCE: Duration = Duration::from_millis(200);
        // Everybody that we may signal, which elsewhere would be far too many.
        if getpid() != Pid::from_raw(1) || kill(Pid::from_raw(-1), Signal::SIGKILL).is_err() {
            return;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match changed_child() {
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(_) => return,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let mut polled = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            match poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)) {
                Ok(0) => return,
                _ => while let Ok(Some(_)) = self.signals.next() {},
            }
        }
    }

    /// Takes in every child that changed its state; the target's end is returned.
    fn reap(&mut self) -> Result<Option<Report>, Failure> {
        loop {
            let (pid, change) = match changed_child_seen(|child| self.look_at_time(child)) {
                Ok(Some(changed)) => changed,
                Ok(None) => return Ok(None),
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(Failure(Step::Signals, errno as i32)),
            };
            if pid != self.target {
                continue;
            }
            match change {
                Change::Exited(code) => return Ok(Some(Report::Exited(code))),
                Change::Signaled(signal) => return Ok(Some(Report::Signaled(signal))),
                Change::Stopped => {
                    self.stopped = true;
                    self.control.report(Report::Stopped, None).at(Step::Signals)?;
                }
                Change::Continued => {
                    self.stopped = false;
                    self.control.report(Report::Resumed, None).at(Step::Signals)?;
                }
            }
        }
    }

    /// Tells when `child`, which has ended, the target or one that it left to us, had used up its processor time: it may have
    /// caught the signal that says so.
    fn look_at_time(&mut self, child: Pid) {
        let (Some(limit), Some(used)) = (self.cpu_time, own_time(child)) else { return };
        // The kernel measures for the limit by its ticks, which are far ahead of what was really used where the machine is itself
        // one of many on another. It leaves a trace where it has sent the signal; a process can leave the same, so the time has to
        // be plausible.
        let told = soft_cpu_limit(child).is_some_and(|soft| soft > limit);
        if used.as_secs() >= limit || told && (used * 4).as_secs() >= limit {
            self.cpu_time = None;
            // Without it the limit is not among those that were reached, and nothing else is different.
            let _told = self.control.report(Report::Spent, None);
        }
    }

    fn note_group_signals(&mut self) {
        let now = Instant::now();
        let first = getpid() == Pid::from_raw(1);
        // What nobody outside asks us for in time was sent to this process alone. Inside a sandbox that can be told at once, and
        // an outer stage that is stopped may take its time.
        self.seen.retain(|(_, at)| first || now.duration_since(*at) < SAME_SIGNAL);
        while let Ok(Some((number, sender))) = self.signals.next_from() {
            if first && sender != 0 {
                continue;
            }
            if number != Signal::SIGCHLD as i32 && self.shared_session {
                self.seen.retain(|(seen, _)| *seen != number);
                self.seen.push((number, now));
            }
        }
    }

    /// Sends a signal to the target, unless it came to the target's process group anyway; to that group if it is said so.
    fn pass_on(&mut self, said: i32) {
        let number = said.abs();
        if said < 0 && !self.shared_session {
            // In a process namespace the group may be ours, whose number would stand for everybody.
            let group = if getpgid(Some(self.target)) == Ok(getpgrp()) { 0 } else { -self.target.as_raw() };
            let _sent = sys::signals::send(Pid::from_raw(group), number);
        } else if let Some(index) = self.seen.iter().position(|(seen, _)| *seen == number) {
            self.seen.swap_remove(index);
        } else {
            // Gone is as good as told.
            let _sent = sys::signals::send(self.target, number);
        }
        if number == Signal::SIGCONT as i32 {
            // Not sent is what the next read of the socket says.
            let _told = self.control.report(Report::Continued, None);
        }
        self.urgent |= URGENT.has(number);
        // It is killed soon, and has until then: also when it stops after it was told.
        self.ending |= number == Signal::SIGTERM as i32;
    }
}
