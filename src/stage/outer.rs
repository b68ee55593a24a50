//! The outer stage: the first side effects. Opens what goes along, starts the launcher, watches until nothing is left.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::account::Account;
use super::cgroup::{Group, Wants};
use super::confined::{self, Confine};
use super::contained::Container;
use super::control::{self, FORWARDED, Inner, Report, Step, WATCHED};
use super::door::{self, Ending, Keeper, Removal};
use super::gate::Gate;
use super::handoff::{self, Errand, Handoff, Header, MARKER};
use super::inside::{self, Isolation};
use super::left::Listener;
use super::look::{self, Place};
use super::outcome::{Outcome, Reason};
use super::output::{Output, Wish};
use super::private::Private;
use super::rlimits::Rlimits;
use super::scratch;
use super::secrets::Secrets;
use super::strace::Strace;
use super::supervise::{self, Messages, Purpose, Started};
use super::terminal::Terminal;
use super::trial::Trial;
use super::way_out::{Outside, Port, Proxy};
use super::{mend, namespace, planted, strays, traces};
use crate::backend::container;
use crate::egress::log::{Counted, Sums};
use crate::host::Host;
use crate::launch::{self, Command, Launch, Word};
use crate::plan::Plan;
use crate::plan::trace::Tracing;
use crate::sys;
use crate::sys::pidfd::PidFd;
use crate::sys::signals::{Arrivals, Signals};

/// Prepares this process once, before the first attempt: nothing inherited crosses by accident from here on.
pub fn settle() -> io::Result<()> {
    sys::fd::fill_streams()?;
    sys::fd::cloexec_all()?;
    sys::process::adopt_orphans()?;
    // A caller that ignores SIGCHLD would make every wait fail.
    sys::signals::default(Signal::SIGCHLD)?;
    // Under a limit on file sizes a memory file that becomes too large shall be an error and not our death.
    sys::signals::ignore(Signal::SIGXFSZ)?;
    sys::signals::block_only(WATCHED)
}

/// What to do with a launch.
#[derive(Clone, Copy, Debug)]
pub enum Mode<'a> {
    /// Start the target.
    Run(Run<'a>),
    /// Build everything and start nothing.
    Rehearse,
    /// Start a container without anything of the host's, and look at what is where these would be mounted.
    Look(&'a [Place]),
    /// Do everything as for the target, and try these in its place; not empty.
    Try(&'a [Trial]),
}

/// What belongs to a run of the target alone.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// How its output is treated.
    pub wish: Wish,
    /// Where lines about its requests go.
    pub net_log: Option<&'a File>,
    /// What is added to them.
    pub secrets: &'a Secrets,
}

/// Carries `launch` out and waits for the end. `port` is what was taken of this host for it.
#[must_use]
pub fn run(plan: &Plan, launch: &Launch, host: &Host, mode: Mode, port: Option<Port>) -> (Outcome, Account) {
    if let Some(ended) = look::first(plan, launch, host) {
        return ended;
    }
    let terminal = Terminal::of(host, plan.new_session);
    let private = match Private::of(plan) {
        Ok(private) => private,
        Err(error) => {
            let reason = Reason::of("make the private directories of the run", &error);
            return (Outcome::NotStarted(reason), Account::default());
        }
    };
    let (outcome, account) = match start(plan, launch, host, mode, private.as_ref(), port) {
        Ok((started, left, proxy)) => {
            let mut watched = supervise::watch(plan, host, started, terminal);
            if let Some(Counted { sums, remedies }) = proxy.and_then(Proxy::finish) {
                (watched.1.requests, watched.1.remedies) = (Some(sums), remedies);
            }
            let lost = watched.1.requests.as_ref().map_or(0, |sums| sums.lost_lines);
            if lost > 0 {
                tracing::warn!("{lost} lines of --net-log could not be written");
            }
            if let Some(denied) = watched.1.requests.as_ref().and_then(denied) {
                tracing::warn!("denied by the rules of --allow-host: {denied}");
            }
            if let Some(left) = left.filter(|_| matches!(mode, Mode::Run(..))) {
                left.tell(host);
            }
            watched
        }
        Err(reason) => (Outcome::NotStarted(reason), Account::default()),
    };
    // The warden has, unless somebody killed it.
    if let Some(reach) = &plan.reach {
        scratch::remove(&reach.scratch);
    }
    if matches!(outcome, Outcome::NotStarted(_)) {
        traces::clear(plan);
    } else {
        traces::take_away(plan);
        mend::mend(plan);
        strays::take_away(plan);
        planted::take_away(plan);
        traces::tell(plan);
    }
    // After the last process that may write there.
    drop(private);
    (outcome, account)
}

/// The hosts that requests were denied to, and how often: not every program says so.
fn denied(sums: &Sums) -> Option<String> {
    const NAMED: usize = 5;
    let hosts: Vec<_> = sums.denied_hosts.iter().map(|(host, count)| format!("'{host}' ({count})")).collect();
    let (first, more) = hosts.split_at(hosts.len().min(NAMED));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    (!first.is_empty()).then(|| format!("{}{more}", first.join(", ")))
}

#[allow(clippy::too_many_lines, reason = "each step needs what those before it made")]
pub(super) fn start(
    plan: &Plan,
    launch: &Launch,
    host: &Host,
    mode: Mode,
    private: Option<&Private>,
    port: Option<Port>,
) -> Result<(Started, Option<Listener>, Option<Proxy>), Reason> {
    // What is no reason to end waits for the target.
    let signals = Arrivals::of(if matches!(mode, Mode::Look(_)) { supervise::WATCHED_EARLY } else { WATCHED })?;
    let (outer, inner) = control::pair()?;
    let mut streams = Streams::duplicate(host)?;
    let output = match mode {
        Mode::Run(Run { wish, .. }) => Output::install(plan, wish, &mut streams.0)?,
        Mode::Rehearse | Mode::Look(_) | Mode::Try(_) => None,
    };
    let (purpose, trials) = match mode {
        Mode::Run(..) => (Purpose::Target, &[][..]),
        Mode::Try(trials) if !trials.is_empty() => (Purpose::Trial, trials),
        // With nothing to try there must not be a target either.
        Mode::Rehearse | Mode::Look(_) | Mode::Try(_) => (Purpose::Rehearsal, &[][..]),
    };
    let messages = sys::fd::scratch(c"messages")?;
    let group = group(plan)?;
    let trace = plan.trace.as_ref().filter(|_| matches!(mode, Mode::Run(..)));
    let strace = trace.and_then(Tracing::strace).map(|trace| Strace::start(trace, plan)).transpose()?;
    let errand = Errand {
        program: strace.as_ref().map_or(&plan.target.literal, |strace| &strace.program),
        argv: strace.as_ref().map_or(&plan.argv, |strace| &strace.argv),
        trials,
    };
    let mut keep = plan.keep_fds.clone();
    keep.extend(strace.as_ref().map(Strace::number));
    let left = Listener::start(plan)?;
    let (isolation, confine) = walls(plan, launch)?;
    let way_out = match mode {
        Mode::Run(Run { net_log, secrets, .. }) => {
            Outside::start(plan, secrets, net_log, port).map_err(|error| Reason::of("start the proxy", &error))?
        }
        Mode::Rehearse | Mode::Look(_) | Mode::Try(_) => None,
    };
    let header = Header {
        nonce: nonce()?,
        control: inner.as_fd().as_raw_fd(),
        streams: streams.numbers(),
        keep: keep.clone(),
        inherited: host.inherited,
        new_session: plan.new_session,
        isolation,
        confine,
        container: Container::of(plan, mode),
        by_shell: plan.target.script_without_shebang && strace.is_none(),
        rlimits: Rlimits::of(plan),
        rehearsal: purpose == Purpose::Rehearsal,
        left: left.as_ref().map(|left| left.wanted(plan)),
        way_out: way_out.as_ref().map(Outside::wanted),
        counts: [
            errand.argv.len(),
            plan.environment.vars.len(),
            plan.checks.len(),
            plan.walls().count(),
            trials.len(),
            plan.frozen.len(),
            plan.reach.iter().flat_map(|reach| &reach.rules).count(),
        ],
        checks: plan.checks.iter().map(|check| (check.device, check.inode, check.held, check.covered)).collect(),
        trials: trials.iter().map(|trial| trial.file).collect(),
    };
    let file = handoff::write(&header, plan, &errand)?;
    let mut keeper = None;
    let (inside, proxy) = way_out.map(Outside::part).unzip();
    let proxy = proxy.flatten();
    let launcher = match launch {
        Launch::Program(command) if command.door.is_some() => {
            let own = [inner.as_fd().as_raw_fd(), file.as_raw_fd()].into_iter();
            let given = streams.numbers().into_iter().flatten().chain(left.as_ref().map(Listener::number));
            let way_out = inside.as_ref().map(AsRawFd::as_raw_fd);
            let gifts: Vec<_> = own.chain(given).chain(way_out).chain(keep.iter().copied()).collect();
            let (launcher, at_door) = by_door(command, host, &header.nonce, &gifts, messages.as_fd())?;
            drop((inner, file, streams, inside));
            keeper = Some(at_door);
            launcher
        }
        Launch::Program(command) => {
            let mut passed = Passed { private, ..Passed::default() };
            let marker = format!("{MARKER}={} {}", file.as_raw_fd(), header.nonce);
            let prepared = Prepared::new(command, &marker, group.as_ref(), &mut passed)?;
            passed.files.extend([file, inner.into()].into_iter().chain(inside));
            passed.files.extend(streams.into_files());
            // Under the very number that the hand-off names.
            keep.extend(left.as_ref().map(Listener::number));
            let keep: Vec<RawFd> = keep.iter().copied().collect();
            let messages = messages.as_fd();
            sys::process::fork(|| prepared.execute(&passed, &keep, group.as_ref(), messages))?
        }
        Launch::Namespaces(_) | Launch::Confined(_) | Launch::InProcess => {
            let handoff = handoff::read(&file, &header.nonce)?;
            // The copy adopts its own duplicates of the streams by number. Our end of the socket is not for it: with that it
            // would never see that we are gone.
            let mut ours = vec![outer.as_fd().as_raw_fd()];
            ours.extend(output.iter().flat_map(Output::descriptors));
            ours.extend(strace.as_ref().map(Strace::reader));
            let launcher = copy(plan, launch, &handoff, &inner, group.as_ref(), ours)?;
            drop((streams, inside));
            launcher
        }
    };
    let started = Started {
        launcher,
        control: outer,
        signals,
        messages: Messages(messages),
        output,
        group,
        trace: strace.map(|strace| strace.listen(plan)),
        keeper,
        proxy: proxy.as_ref().map(Proxy::pid),
        purpose,
    };
    Ok((started, left, proxy))
}

/// What has to hold inside, and what the target does to itself: a launch has one of them, or none.
fn walls(plan: &Plan, launch: &Launch) -> Result<(Option<Isolation>, Option<Confine>), Reason> {
    match launch {
        Launch::Program(_) | Launch::Namespaces(_) => {
            let isolation = inside::isolation(plan).map_err(|error| Reason::of("read /proc/self/ns", &error))?;
            Ok((Some(isolation), None))
        }
        Launch::Confined(confinement) => {
            let confine = Confine::of(plan, confinement).map_err(|error| Reason::of("confine", &error))?;
            Ok((None, Some(confine)))
        }
        Launch::InProcess => Ok((None, None)),
    }
}

/// Starts a launcher that passes no descriptor on, and a process that hands `gifts` to the inner stage, in this order.
fn by_door(
    command: &Command,
    host: &Host,
    secret: &str,
    gifts: &[RawFd],
    messages: BorrowedFd,
) -> Result<(Pid, Keeper), Reason> {
    let engine = command.program.file_name().unwrap_or_default().to_string_lossy();
    for left in door::abandoned(host, &engine) {
        let mut passed = Passed::of(left.path());
        left.clear(&removal(command, &mut passed)?);
    }
    let failed = |error: io::Error| Reason::of("make a directory for the run", &error);
    let place = door::choose(host, &engine).map_err(failed)?;
    let mut passed = Passed::of(&place);
    let name = place.file_name().unwrap_or_default();
    let marker = format!("{MARKER}={} {secret}", container::socket(name).display());
    let loader = command.door.as_ref().and_then(|door| door.loader.as_deref());
    let prepared = Prepared::new(command, &marker, None, &mut passed)?;
    let removal = removal(command, &mut passed)?;
    let keeper = Keeper::start(place, loader, secret, gifts, removal).map_err(failed)?;
    // What the engine leaves running serves others as well, and is not ours to take in.
    door::leave_orphans(true)?;
    let launcher = sys::process::fork(|| {
        // Before there is anything to end: nobody else could, if this process is killed.
        if let Err(error) = keeper.announce() {
            return prepared.give_up("announce the start of", &error, messages);
        }
        prepared.execute(&passed, &[], None, messages)
    });
    match launcher {
        Ok(launcher) => Ok((launcher, keeper)),
        Err(errno) => {
            keeper.end(Ending::Removed);
            Err(errno.into())
        }
    }
}

/// How the program of `command` removes what it may leave.
fn removal(command: &Command, passed: &mut Passed) -> io::Result<Removal> {
    let door = command.door.iter().flat_map(|door| &door.removal);
    let arguments = door.map(|word| render(word, passed)).collect::<io::Result<_>>()?;
    let environment = command.door.as_ref().map(|door| door.environment.clone()).unwrap_or_default();
    Ok(Removal { program: command.program.clone(), arguments, environment })
}

/// Starts the inner stage in a copy of this process, which lets go of `ours`, in `group`; with private directories
/// on the host under a warden.
fn copy(
    plan: &Plan,
    launch: &Launch,
    handoff: &Handoff,
    inner: &Inner,
    group: Option<&Group>,
    mut ours: Vec<RawFd>,
) -> Result<Pid, Reason> {
    if let Launch::Namespaces(namespaces) = launch {
        // It lets go of all but what it needs.
        return namespace::start(plan, namespaces, handoff, inner, group);
    }
    let scratch = plan.reach.as_ref().map(|reach| &reach.scratch);
    let gate = Gate::of(group)?;
    ours.extend(gate.opener());
    let outer = scratch.map(|_| PidFd::open(nix::unistd::getpid().as_raw())).transpose()?;
    let launcher = sys::process::fork(|| {
        for number in ours {
            drop(sys::fd::adopt(number));
        }
        gate.wait();
        if let Some(Err(error)) = group.map(Group::enter) {
            let errno = error.raw_os_error().unwrap_or(0);
            let _told = inner.report(Report::Failed(Step::Limits, errno), None);
            sys::process::exit_now(125);
        }
        // Neither returns here.
        let run = || super::inner::in_process(handoff, inner);
        match (&outer, scratch) {
            (Some(outer), Some(scratch)) => confined::guard(outer, scratch, inner, run),
            _ => run(),
        }
    })?;
    gate.open(plan, group, launcher)?;
    Ok(launcher)
}

/// The control group of the run, if it is to have one.
fn group(plan: &Plan) -> Result<Option<Group>, Reason> {
    let Some(mechanism) = &plan.cgroup else { return Ok(None) };
    let wants = Wants::of(plan);
    match Group::create(mechanism, &wants) {
        Ok(group) => Ok(Some(group)),
        Err(error) if wants.is_limit() => Err(Reason::without_group(&wants, &error)),
        // Only counts, and processor time is limited for each process anyway.
        Err(error) => {
            tracing::debug!("no control group: {error}");
            Ok(None)
        }
    }
}

/// Sixteen random bytes in hexadecimal.
fn nonce() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Duplicates of the target's standard streams, above 2.
struct Streams([Option<OwnedFd>; 3]);

impl Streams {
    fn duplicate(host: &Host) -> io::Result<Self> {
        let mut streams = [None, None, None];
        for ((slot, number), closed) in streams.iter_mut().zip(0..).zip(host.inherited.closed) {
            if !closed {
                *slot = sys::fd::duplicate_stream(number)?;
            }
        }
        Ok(Self(streams))
    }

    fn numbers(&self) -> [Option<RawFd>; 3] {
        self.0.each_ref().map(|stream| stream.as_ref().map(AsRawFd::as_raw_fd))
    }

    fn into_files(self) -> impl Iterator<Item = OwnedFd> {
        self.0.into_iter().flatten()
    }
}

/// What the launcher program is given.
#[derive(Default)]
struct Passed<'a> {
    /// Descriptors that it inherits.
    files: Vec<OwnedFd>,
    /// The directory of the run, where it has one on the host.
    private: Option<&'a Private>,
    /// The directory of a container's door, and its name.
    place: Option<(PathBuf, OsString)>,
}

impl Passed<'_> {
    /// Nothing so far, for a run whose door is in this directory.
    fn of(place: &Path) -> Self {
        let name = place.file_name().unwrap_or_default().to_owned();
        Self { place: Some((place.to_owned(), name)), ..Self::default() }
    }
}

/// A launcher program with its strings made, so that nothing is built between fork and exec.
struct Prepared {
    program: CString,
    argv: Vec<CString>,
    environment: Vec<CString>,
}

impl Prepared {
    /// With `group` the launcher may have to be started by another program.
    fn new(command: &Command, marker: &str, group: Option<&Group>, passed: &mut Passed) -> io::Result<Self> {
        let mut list = Vec::new();
        for word in &command.options {
            list.extend_from_slice(render(word, passed)?.as_bytes());
            list.push(0);
        }
        let options = sys::fd::sealed(c"options", &list)?;
        let number = options.as_raw_fd();
        if command.door.is_none() {
            passed.files.push(options);
        }
        let mut argv = vec![c_string(command.program.as_os_str())?];
        let mut program = argv[0].clone();
        // Pruned to nothing else: what a launcher is started with can be read in /proc by the target.
        let mut environment = vec![c_string(marker.as_ref())?];
        for (name, value) in command.door.iter().flat_map(|door| &door.environment) {
            environment.push(c_string(&[name.as_os_str(), value].join("=".as_ref()))?);
        }
        if let Some((starter, words, variables)) = group.and_then(Group::prefix) {
            program = c_string(starter.as_os_str())?;
            argv.splice(0..0, [program.clone()]);
            for (at, word) in (1..).zip(&words) {
                argv.insert(at, c_string(word)?);
            }
            for (name, mut value) in variables {
                value = [name, value].join("=".as_ref());
                environment.push(c_string(&value)?);
            }
        }
        for word in &command.arguments {
            let text = match word {
                Word::Fd(launch::File::Options) => number.to_string().into(),
                word => render(word, passed)?,
            };
            argv.push(c_string(&text)?);
        }
        Ok(Self { program, argv, environment })
    }

    /// In the child: becomes the launcher. Says why not on the descriptor that is its standard error.
    fn execute(
        &self,
        passed: &Passed,
        keep: &[RawFd],
        group: Option<&Group>,
        messages: BorrowedFd,
    ) -> std::convert::Infallible {
        let (what, reason) = self.become_launcher(passed, keep, group, messages);
        self.give_up(what, &reason, messages)
    }

    /// In the child: says why there is no launcher.
    fn give_up(&self, what: &str, reason: &io::Error, messages: BorrowedFd) -> std::convert::Infallible {
        // It may be that already.
        let _placed = sys::fd::place(messages, 2);
        let text = sys::process::reason(reason.raw_os_error().unwrap_or(0));
        let _told = writeln!(io::stderr(), "cannot {what} {}: {text}", self.program.to_string_lossy());
        sys::process::exit_now(125)
    }

    fn become_launcher(
        &self,
        passed: &Passed,
        keep: &[RawFd],
        group: Option<&Group>,
        messages: BorrowedFd,
    ) -> (&'static str, io::Error) {
        let prepared = || -> io::Result<()> {
            // First, so that what goes wrong from here on is read as the launcher's words.
            sys::fd::place(messages, 2)?;
            sys::fd::silence(&[0, 1])?;
            if passed.place.is_some() {
                // An engine's program listens to the terminal whatever was ignored when it started.
                nix::unistd::setsid()?;
            }
            group.map_or(Ok(()), Group::enter)?;
            for fd in passed.files.iter().map(AsRawFd::as_raw_fd).chain(keep.iter().copied()) {
                sys::fd::set_cloexec(fd, false)?;
            }
            // The launcher must outlive what ends the target; the inner stage restores the caller's dispositions.
            sys::signals::ignore_all(FORWARDED.but(Signals::of(&[Signal::SIGCONT])));
            sys::signals::block_only(Signals::RESERVED)?;
            // Where there is no room for a new one, the filter still keeps the target from the caller's.
            let _left = sys::keyring::leave();
            Ok(())
        };
        match prepared() {
            Ok(()) => ("execute", sys::process::exec(&self.program, &self.argv, &self.environment).into()),
            Err(error) => ("prepare the start of", error),
        }
    }
}

fn render(word: &Word, passed: &mut Passed) -> io::Result<OsString> {
    let (file, path) = match word {
        Word::Text(text) => return Ok(with_name(text, passed)),
        Word::Fd(file) => (file, false),
        Word::FdPath(file) => (file, true),
        Word::Private(text) => {
            let private = passed.private.ok_or_else(|| io::Error::other("a profile without a directory for it"))?;
            return private.file("profile", text).map(PathBuf::into_os_string);
        }
        Word::Scratch { before, name, after } => {
            let (place, _) = passed.place.as_ref().ok_or_else(|| io::Error::other("a run without a directory"))?;
            return Ok([before.as_os_str(), place.join(name).as_os_str(), &with_name(after, passed)].join("".as_ref()));
        }
    };
    let opened = match file {
        launch::File::Image => sys::image::own()?,
        launch::File::Host(path) => {
            let open = File::open(path);
            let told = |error: &io::Error| format!("'{}': {}", path.display(), sys::process::describe(error));
            open.map_err(|error| io::Error::new(error.kind(), told(&error)))?.into()
        }
        launch::File::Empty => sys::fd::sealed(c"empty", b"")?,
        launch::File::Options => return Err(io::Error::other("an option list inside an option list")),
    };
    let number = opened.as_raw_fd();
    passed.files.push(opened);
    Ok(if path { sys::fd::name(number).into() } else { number.to_string().into() })
}

/// A text with the name of the run in it; without one what stands for it stays, and is refused as an argument.
fn with_name(text: &OsStr, passed: &Passed) -> OsString {
    passed.place.as_ref().map_or_else(|| text.to_owned(), |(_, name)| launch::named(text, name))
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a NUL byte in an argument"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_a_file_of_the_run_and_its_launcher_hears_nothing_else() {
        let above = tempfile::tempdir().unwrap();
        let root = above.path().join("run");
        let private = Private::make(&root, &[&root.join("tmp")]).unwrap();
        let command = Command {
            program: "/usr/bin/sandbox-exec".into(),
            arguments: vec!["-f".into(), Word::Private("(version 1)\n".into()), "/opt/sandbox-run".into()],
            options: Vec::new(),
            door: None,
        };
        let mut passed = Passed { private: Some(&private), ..Passed::default() };
        let prepared = Prepared::new(&command, "SANDBOX_RUN_STAGE=9 nonce", None, &mut passed).unwrap();
        let text = |text: &CString| text.to_str().unwrap().to_owned();
        let profile = root.join("profile");
        assert_eq!(text(&prepared.program), "/usr/bin/sandbox-exec");
        let argv: Vec<_> = prepared.argv.iter().map(text).collect();
        assert_eq!(argv, ["/usr/bin/sandbox-exec", "-f", profile.to_str().unwrap(), "/opt/sandbox-run"]);
        assert_eq!(prepared.environment.iter().map(text).collect::<Vec<_>>(), ["SANDBOX_RUN_STAGE=9 nonce"]);
        assert_eq!(std::fs::read_to_string(&profile).unwrap(), "(version 1)\n");
        // A second one would be another run's.
        assert!(Prepared::new(&command, "", None, &mut passed).is_err());
        drop(private);
        assert_eq!(std::fs::read_dir(above.path()).unwrap().count(), 0);
        // Without a directory there is nobody to remove it.
        let mut passed = Passed::default();
        assert!(Prepared::new(&command, "", None, &mut passed).is_err());
    }
}
