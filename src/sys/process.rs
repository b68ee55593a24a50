//! Fork, exec and facts about this process.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{ForkResult, Pid};

use super::system::pidfd::PidFd;
pub use super::system::process::{
    INHERITED, adopt_orphans, children, end_session, end_with_parent, groups, hide, image, is_one_user,
    limit_processes, own_time, soft_cpu_limit,
};
use super::system::process::{children_of_process, kibibytes};
#[cfg(target_os = "linux")]
pub use super::system::process::{
    drop_capabilities, has_capabilities, has_no_new_privs, holds_capabilities, knows_children,
};

/// Runs `child` in a copy of this process and returns its number; `child` never returns here.
///
/// The process must have one thread, as this program always has: then the copy may allocate and take locks.
pub fn fork<N>(child: impl FnOnce() -> N) -> nix::Result<Pid> {
    // SAFETY: this program starts no threads before it forks, so no lock can be left held by one that is not copied.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            child();
            exit_now(125)
        }
    }
}

/// Has a copy of this process do `action` and waits for it, so that SIGKILL for this process, or for its process group, does not
/// interrupt it. Where there can be no copy, it is done here.
///
/// Called when no child is left whose end somebody else waits for.
pub fn apart(action: impl Fn() -> io::Result<()>) -> io::Result<()> {
    // A caller that ignores SIGCHLD would make the wait fail.
    super::signals::default(Signal::SIGCHLD)?;
    let child = fork(|| {
        // Without these it is only easier to interrupt.
        let _own = nix::unistd::setsid();
        let _blocked = nix::sys::signal::SigSet::all().thread_block();
        exit_now(action().map_or_else(|error| error.raw_os_error().unwrap_or(NO_NUMBER), |()| 0));
    });
    let Ok(child) = child else { return action() };
    loop {
        match nix::sys::wait::waitpid(child, None) {
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(nix::sys::wait::WaitStatus::Exited(_, 0)) => return Ok(()),
            Ok(nix::sys::wait::WaitStatus::Exited(_, errno)) if errno != NO_NUMBER => {
                return Err(io::Error::from_raw_os_error(errno));
            }
            Ok(_) => return Err(io::Error::other("it was interrupted")),
        }
    }
}

/// Runs `child` in a copy of this process that is nobody's child of ours and has a session of its own.
pub fn detached(child: impl FnOnce()) -> io::Result<()> {
    let between = fork(|| {
        // Without one it only hears what is sent to the terminal.
        let _own = nix::unistd::setsid();
        let started = fork(|| {
            child();
            exit_now(0)
        });
        exit_now(started.map_or_else(|errno| errno as i32, |_| 0))
    })?;
    loop {
        match nix::sys::wait::waitpid(between, None) {
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(nix::sys::wait::WaitStatus::Exited(_, 0)) => return Ok(()),
            Ok(nix::sys::wait::WaitStatus::Exited(_, errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Ok(_) => return Err(io::Error::other("it was interrupted")),
        }
    }
}

/// Exit status for an error that has no number; those of the system are lower.
const NO_NUMBER: i32 = 255;

/// Ends this process at once, without running destructors or flushing anything.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit takes an integer and does not return.
    unsafe { libc::_exit(status) }
}

/// Replaces this process; returns only the reason why that failed.
///
/// Takes the strings as pointers prepared beforehand: 20,000 arguments are not copied once more.
#[must_use]
pub fn exec(program: &CStr, argv: &[CString], environment: &[CString]) -> nix::errno::Errno {
    match nix::unistd::execve(program, argv, environment) {
        Err(errno) => errno,
        Ok(never) => match never {},
    }
}

/// A path or word as the kernel takes it; `None` when it holds a NUL byte.
#[must_use]
pub fn c_string(text: &std::ffi::OsStr) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}

/// The mask for the modes of new files. Asked by setting it, since the kernel has no other way that is always there.
#[must_use]
#[allow(clippy::useless_conversion, reason = "macOS has a narrower type")]
pub fn umask() -> u32 {
    let mask = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o77));
    nix::sys::stat::umask(mask);
    mask.bits().into()
}

/// Sets the mask for the modes of new files.
#[allow(clippy::useless_conversion, clippy::unnecessary_fallible_conversions, reason = "macOS has a narrower type")]
pub fn set_umask(mask: u32) {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(mask.try_into().unwrap_or(0o77)));
}

/// What the process and all that it has waited for have used.
#[must_use]
pub fn usage_of_children() -> Usage {
    use nix::sys::resource::{UsageWho, getrusage};
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Usage::default() };
    let time = |time: nix::sys::time::TimeVal| {
        Duration::from_secs(u64::try_from(time.tv_sec()).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec()).unwrap_or(0))
    };
    Usage { user: time(usage.user_time()), system: time(usage.system_time()), max_rss_kib: kibibytes(usage.max_rss()) }
}
/// Text for an error number, lower case as in our messages, and the same whichever C library is used.
#[must_use]
pub fn reason(errno: i32) -> String {
    let errno = nix::errno::Errno::from_raw(errno);
    let text = match errno {
        // Where the common table has words that nobody would look for.
        nix::errno::Errno::EBADF => "bad file descriptor",
        nix::errno::Errno::EAGAIN => "resource temporarily unavailable",
        nix::errno::Errno::ELOOP => "too many levels of symbolic links",
        errno => errno.desc(),
    };
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// An input/output error in the same manner.
#[must_use]
pub fn describe(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), reason)
}

/// What became of a child.
///
/// In plain numbers, because nix knows no real-time signals and refuses a status that holds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It exited with this status.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
    /// It stopped.
    Stopped,
    /// It goes on.
    Continued,
}

impl Change {
    /// The status, of one that exited.
    #[must_use]
    pub fn status(self) -> Option<i32> {
        match self {
            Self::Exited(status) => Some(status),
            Self::Signaled(_) | Self::Stopped | Self::Continued => None,
        }
    }
}

/// What a process and its children that were waited for have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// The greatest memory in use, in KiB, of the largest of them.
    pub max_rss_kib: u64,
}

impl Usage {
    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.user += other.user;
        self.system += other.system;
        self.max_rss_kib = self.max_rss_kib.max(other.max_rss_kib);
    }
}

/// Takes in a child that ended, stopped or went on; `None` when none did. ECHILD when there are no children.
pub fn changed_child() -> nix::Result<Option<(Pid, Change)>> {
    Ok(changed_child_with_usage()?.map(|(pid, change, _)| (pid, change)))
}

/// The same with what the child has used so far.
pub fn changed_child_with_usage() -> nix::Result<Option<(Pid, Change, Usage)>> {
    let flags = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `status` and `usage` are valid for writes; with WNOHANG the call returns at once.
    let pid = nix::errno::Errno::result(unsafe { libc::wait4(-1, &raw mut status, flags, &raw mut usage) })?;
    if pid == 0 {
        return Ok(None);
    }
    let change = if libc::WIFEXITED(status) {
        Change::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSTOPPED(status) {
        Change::Stopped
    } else if libc::WIFCONTINUED(status) {
        Change::Continued
    } else {
        Change::Signaled(libc::WTERMSIG(status))
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    let usage =
        Usage { user: time(usage.ru_utime), system: time(usage.ru_stime), max_rss_kib: kibibytes(usage.ru_maxrss) };
    Ok(Some((Pid::from_raw(pid), change, usage)))
}

/// As [`changed_child`], where `look` sees each child that has ended while there is still something of it to be asked about.
pub fn changed_child_seen(mut look: impl FnMut(Pid)) -> nix::Result<Option<(Pid, Change)>> {
    let any = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG;
    loop {
        // One look for all kinds: asked for the other kinds only, the kernel takes a child that has ended for none (ECHILD).
        let Some((pid, change)) = wait_id(None, any | libc::WNOWAIT)? else { return Ok(None) };
        let kind = match change {
            Change::Exited(_) | Change::Signaled(_) => {
                look(pid);
                libc::WEXITED
            }
            Change::Stopped => libc::WSTOPPED,
            Change::Continued => libc::WCONTINUED,
        };
        match wait_id(Some(pid), kind | libc::WNOHANG) {
            // It went on meanwhile, or has ended.
            Ok(None) | Err(nix::errno::Errno::ECHILD) => {}
            taken => return taken,
        }
    }
}

/// What waitid says of `child`, or of any.
fn wait_id(child: Option<Pid>, flags: libc::c_int) -> nix::Result<Option<(Pid, Change)>> {
    let (kind, number) = child.map_or((libc::P_ALL, 0), |child| (libc::P_PID, child.as_raw().cast_unsigned()));
    // SAFETY: all-zero bytes are a valid siginfo.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is valid for writes.
    nix::errno::Errno::result(unsafe { libc::waitid(kind, number, &raw mut info, flags) })?;
    // SAFETY: waitid fills in this field, and leaves a zero when there is nothing to tell.
    let pid = unsafe { info.si_pid() };
    // SAFETY: the same.
    let status = unsafe { info.si_status() };
    if pid == 0 {
        return Ok(None);
    }
    let change = match info.si_code {
        libc::CLD_EXITED => Change::Exited(status & 0xff),
        libc::CLD_STOPPED | libc::CLD_TRAPPED => Change::Stopped,
        libc::CLD_CONTINUED => Change::Continued,
        _ => Change::Signaled(status),
    };
    Ok(Some((Pid::from_raw(pid), change)))
}

/// A point on the clock that all processes here have in common, to be sent from one to another within minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(i32);

impl Moment {
    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writes. The clock is the one of `Instant`.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        let micros = i128::from(time.tv_sec) * 1_000_000 + i128::from(time.tv_nsec) / 1000;
        // The lower bits are enough for a difference.
        Self::from_number(i32::try_from(micros & i128::from(i32::MAX)).unwrap_or(0))
    }

    /// How long ago it was.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        let micros = Self::now().0.wrapping_sub(self.0) & i32::MAX;
        Duration::from_micros(micros.unsigned_abs().into())
    }

    /// As it is sent.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }

    /// As it was sent.
    #[must_use]
    pub fn from_number(number: i32) -> Self {
        Self(number)
    }
}

/// Whether child `pid` has ended; it is not taken in.
#[must_use]
pub fn has_ended(pid: Pid) -> bool {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    matches!(wait_id(Some(pid), flags), Ok(Some(_)))
}

/// Kills every child of this process but those in `spare` and, where it is a subreaper, their orphans after them, until
/// none is left. `taken` hears of each that was taken in.
///
/// Bounded: a process that forks faster than it can be killed is given up after two seconds.
pub fn kill_children(spare: &[Pid], taken: &mut dyn FnMut(Pid, Usage)) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(2);
    while std::time::Instant::now() < deadline {
        let doomed: Vec<_> = children().into_iter().filter(|child| !spare.contains(child)).collect();
        if doomed.is_empty() {
            return;
        }
        for child in doomed {
            // Gone is as good as killed.
            let _sent = nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL);
        }
        match changed_child_with_usage() {
            Ok(None) => std::thread::sleep(std::time::Duration::from_millis(1)),
            Ok(Some((pid, Change::Exited(_) | Change::Signaled(_), usage))) => taken(pid, usage),
            Ok(Some(_)) => {}
            Err(_) => return,
        }
    }
}

/// Kills every descendant of this process, but not `spare` and what comes of them, and takes in what falls to it.
///
/// Each is stopped first, until no new one is found, so that nothing forks away from under the search. Bounded, as
/// [`kill_children`] is.
pub fn kill_tree(spare: &[Pid], taken: &mut dyn FnMut(Pid, Usage)) {
    let deadline = Instant::now() + Duration::from_secs(2);
    let mut stopped = BTreeSet::new();
    while Instant::now() < deadline {
        let found: Vec<_> = descendants(spare).into_iter().filter(|pid| !stopped.contains(pid)).collect();
        if found.is_empty() {
            break;
        }
        for pid in found {
            // Gone is as good as stopped.
            let _sent = nix::sys::signal::kill(pid, Signal::SIGSTOP);
            stopped.insert(pid);
        }
    }
    for pid in descendants(spare) {
        let _sent = nix::sys::signal::kill(pid, Signal::SIGKILL);
    }
    kill_children(spare, taken);
}

/// Kills a process that is no child of ours with all that comes of it, as [`kill_tree`] does. Orphans of it go elsewhere and are
/// not found; nothing is taken in.
pub fn kill_tree_of(root: &PidFd) {
    let deadline = Instant::now() + Duration::from_secs(2);
    // While it is stopped its number is nobody else's.
    let _sent = root.send(Signal::SIGSTOP);
    let mut stopped = BTreeSet::new();
    while let (Some(pid), true) = (root.number(), Instant::now() < deadline) {
        let found: Vec<_> = all_below(vec![pid]).into_iter().skip(1).filter(|pid| !stopped.contains(pid)).collect();
        if found.is_empty() {
            break;
        }
        for pid in found {
            let _sent = nix::sys::signal::kill(pid, Signal::SIGSTOP);
            stopped.insert(pid);
        }
    }
    let all = root.number().map(|pid| all_below(vec![pid])).unwrap_or_default();
    for pid in all.into_iter().skip(1) {
        let _sent = nix::sys::signal::kill(pid, Signal::SIGKILL);
    }
    let _sent = root.send(Signal::SIGKILL);
}

/// All processes that come of this one, except `spare` and what comes of them.
fn descendants(spare: &[Pid]) -> Vec<Pid> {
    all_below(children().into_iter().filter(|child| !spare.contains(child)).collect())
}

/// These processes and all that come of them.
fn all_below(mut all: Vec<Pid>) -> Vec<Pid> {
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        next += 1;
        let found = children_of_process(*pid);
        all.extend(found);
    }
    all
}

/// What a program has printed, of each at most 64 KiB, and whether it ended well.
#[derive(Debug)]
pub struct Said {
    /// Whether it ended by itself, with status 0.
    pub success: bool,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Runs `program` with these words and variables and nothing else.
///
/// Bounded by `patience` and in what it may print: it is asked because something failed, and may hang. Nothing of it is left.
pub fn run(
    program: &Path,
    words: &[OsString],
    variables: &[(OsString, OsString)],
    patience: Duration,
) -> io::Result<Said> {
    run_until(program, words, variables, patience, None)
}

/// The same, ended early when there is something to read at `end`.
#[allow(clippy::disallowed_methods, reason = "sys is where processes are started")]
pub fn run_until(
    program: &Path,
    words: &[OsString],
    variables: &[(OsString, OsString)],
    patience: Duration,
    end: Option<BorrowedFd>,
) -> io::Result<Said> {
    const LIMIT: usize = 64 << 10;
    let mut child = std::process::Command::new(program)
        .args(words)
        .env_clear()
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let deadline = Instant::now() + patience;
    let mut pipes = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
    let mut texts = [Vec::new(), Vec::new()];
    let mut part = [0; 4096];
    let mut late = false;
    while pipes.iter().any(Option::is_some) && texts.iter().all(|text| text.len() <= LIMIT) && !late {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut polled: Vec<_> =
            pipes.iter().flatten().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)).collect();
        polled.extend(end.map(|end| PollFd::new(end, PollFlags::POLLIN)));
        match poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)) {
            Ok(ready) => late = ready == 0,
            Err(nix::errno::Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<_> = polled.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty())).collect();
        drop(polled);
        late |= end.is_some() && ready.last() == Some(&true);
        let mut ready = ready.into_iter();
        for (pipe, text) in pipes.iter_mut().zip(&mut texts) {
            if let Some(open) = pipe
                && ready.next() == Some(true)
            {
                match nix::unistd::read(&*open, &mut part)? {
                    0 => *pipe = None,
                    length => text.extend_from_slice(&part[..length]),
                }
            }
        }
    }
    // Who has closed everything is about to end.
    while !late
        && Instant::now() < deadline
        && pipes.iter().all(Option::is_none)
        && !has_ended(Pid::from_raw(child.id().cast_signed()))
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The group, since what is found under that name may be a script with children.
    let _sent = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
    let success = child.wait()?.success();
    let [stdout, stderr] = texts;
    Ok(Said { success, stdout, stderr })
}
