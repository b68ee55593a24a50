//! The outer stage: the first side effects. Opens what goes along, starts the launcher, watches until nothing is left.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::control::{self, FORWARDED};
use super::handoff::{self, Header, MARKER};
use super::outcome::{Outcome, Reason};
use super::supervise::{self, Messages, Started};
use super::terminal::Terminal;
use super::traces;
use crate::host::Host;
use crate::launch::{self, Command, Launch, Word};
use crate::plan::Plan;
use crate::sys;

/// Prepares this process once, before the first attempt: nothing inherited crosses by accident from here on.
pub fn settle() -> io::Result<()> {
    sys::fd::fill_streams()?;
    sys::fd::cloexec_all()?;
    nix::sys::prctl::set_child_subreaper(true)?;
    // A caller that ignores SIGCHLD would make every wait fail.
    sys::signals::default(Signal::SIGCHLD)?;
    // Under a limit on file sizes a memory file that becomes too large shall be an error and not our death.
    sys::signals::ignore(Signal::SIGXFSZ)?;
    let mut watched = FORWARDED.to_vec();
    watched.push(Signal::SIGCHLD);
    sys::signals::block_only(&watched)?;
    Ok(())
}

/// Carries `launch` out and waits for the end. `rehearsal` builds everything and starts nothing.
#[must_use]
pub fn run(plan: &Plan, launch: &Launch, host: &Host, rehearsal: bool) -> Outcome {
    let terminal = Terminal::of(host, plan.new_session);
    let outcome = match start(plan, launch, host, rehearsal) {
        Ok(started) => supervise::watch(plan, host, started, terminal),
        Err(reason) => Outcome::NotStarted(reason),
    };
    if matches!(outcome, Outcome::NotStarted(_)) {
        traces::clear(plan);
    }
    outcome
}

fn start(plan: &Plan, launch: &Launch, host: &Host, rehearsal: bool) -> Result<Started, Reason> {
    for directory in &plan.create {
        std::fs::create_dir_all(directory)?;
    }
    let watched: SigSet = FORWARDED.iter().copied().chain([Signal::SIGCHLD]).collect();
    let signals = SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let (outer, inner) = control::pair()?;
    let streams = Streams::duplicate(host)?;
    let messages = sys::fd::scratch(c"messages")?;
    let header = Header {
        nonce: nonce()?,
        control: inner.as_fd().as_raw_fd(),
        streams: streams.numbers(),
        keep: plan.keep_fds.clone(),
        inherited: host.inherited,
        new_session: plan.new_session,
        isolation: match launch {
            Launch::Program(_) => {
                Some(handoff::isolation(plan).map_err(|error| Reason::of("read /proc/self/ns", &error))?)
            }
            Launch::InProcess => None,
        },
        by_shell: plan.target.script_without_shebang,
        rehearsal,
        counts: [plan.argv.len(), plan.environment.vars.len(), plan.checks.len(), plan.walls().count()],
        checks: plan.checks.iter().map(|check| (check.device, check.inode, check.same)).collect(),
    };
    let file = handoff::write(&header, plan)?;
    let launcher = match launch {
        Launch::Program(command) => {
            let mut passed = Passed::default();
            let marker = format!("{MARKER}={} {}", file.as_raw_fd(), header.nonce);
            let prepared = Prepared::new(command, &marker, &mut passed)?;
            passed.files.extend([file, inner.into()]);
            passed.files.extend(streams.into_files());
            let keep: Vec<RawFd> = plan.keep_fds.iter().copied().collect();
            let messages = messages.as_fd();
            sys::process::fork(|| prepared.execute(&passed, &keep, messages))?
        }
        Launch::InProcess => {
            let handoff = handoff::read(&file, &header.nonce)
                .ok_or_else(|| io::Error::other("the hand-off cannot be read back"))?;
            // The copy adopts its own duplicates of the streams by number and never returns here. Our end of the socket
            // is not for it: with that it would never see that we are gone.
            let ours = outer.as_fd().as_raw_fd();
            let launcher = sys::process::fork(|| {
                drop(sys::fd::adopt(ours));
                super::inner::in_process(&handoff, &inner)
            })?;
            drop(streams);
            launcher
        }
    };
    Ok(Started { launcher, control: outer, signals, messages: Messages(messages), rehearsal })
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

/// Descriptors that the launcher program inherits.
#[derive(Default)]
struct Passed {
    files: Vec<OwnedFd>,
}

/// A launcher program with its strings made, so that nothing is built between fork and exec.
struct Prepared {
    program: CString,
    argv: Vec<CString>,
    environment: Vec<CString>,
}

impl Prepared {
    fn new(command: &Command, marker: &str, passed: &mut Passed) -> io::Result<Self> {
        let mut list = Vec::new();
        for word in &command.options {
            list.extend_from_slice(render(word, passed)?.as_bytes());
            list.push(0);
        }
        let options = sys::fd::sealed(c"options", &list)?;
        let number = options.as_raw_fd();
        passed.files.push(options);
        let mut argv = vec![c_string(command.program.as_os_str())?];
        for word in &command.arguments {
            let text = match word {
                Word::Fd(launch::File::Options) => number.to_string().into(),
                word => render(word, passed)?,
            };
            argv.push(c_string(&text)?);
        }
        Ok(Self {
            program: c_string(command.program.as_os_str())?,
            argv,
            // Pruned to nothing: what a launcher is started with can be read in /proc by the target.
            environment: vec![c_string(marker.as_ref())?],
        })
    }

    /// In the child: becomes the launcher. Says why not on the descriptor that is its standard error.
    fn execute(&self, passed: &Passed, keep: &[RawFd], messages: std::os::fd::BorrowedFd) -> std::convert::Infallible {
        use std::io::Write;
        let (what, reason) = self.become_launcher(passed, keep, messages);
        let text = sys::process::reason(reason.raw_os_error().unwrap_or(0));
        let _told = writeln!(io::stderr(), "cannot {what} {}: {text}", self.program.to_string_lossy());
        sys::process::exit_now(125)
    }

    fn become_launcher(
        &self,
        passed: &Passed,
        keep: &[RawFd],
        messages: std::os::fd::BorrowedFd,
    ) -> (&'static str, io::Error) {
        let prepared = || -> io::Result<()> {
            // First, so that what goes wrong from here on is read as the launcher's words.
            sys::fd::place(messages, 2)?;
            sys::fd::silence(&[0, 1])?;
            for fd in passed.files.iter().map(AsRawFd::as_raw_fd).chain(keep.iter().copied()) {
                sys::fd::set_cloexec(fd, false)?;
            }
            // The launcher must outlive what ends the target; the inner stage restores the caller's dispositions.
            for signal in FORWARDED.iter().copied().filter(|signal| *signal != Signal::SIGCONT) {
                sys::signals::ignore(signal)?;
            }
            sys::signals::block_only(&[])?;
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
        Word::Text(text) => return Ok(text.clone()),
        Word::Fd(file) => (file, false),
        Word::FdPath(file) => (file, true),
    };
    let opened = match file {
        launch::File::Image => sys::fd::own_image()?,
        launch::File::Host(path) => {
            let open = File::open(path);
            open.map_err(|error| io::Error::new(error.kind(), format!("'{}': {error}", path.display())))?.into()
        }
        launch::File::Empty => sys::fd::sealed(c"empty", b"")?,
        launch::File::Options => return Err(io::Error::other("an option list inside an option list")),
    };
    let number = opened.as_raw_fd();
    passed.files.push(opened);
    Ok(if path { format!("/proc/self/fd/{number}").into() } else { number.to_string().into() })
}

fn c_string(text: &std::ffi::OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a NUL byte in an argument"))
}
