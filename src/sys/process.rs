//! Fork, exec and facts about this process.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{ForkResult, Pid};

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

/// Whether `no_new_privs` is set on this process.
#[must_use]
pub fn has_no_new_privs() -> bool {
    nix::sys::prctl::get_no_new_privs().unwrap_or(false)
}

/// What the calls about capabilities begin with.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

impl CapabilityHeader {
    /// The third version, for this process.
    const OWN: Self = Self { version: 0x2008_0522, pid: 0 };
}

/// One half of the capabilities of a process.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Capabilities {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up every capability for good: the bounding set first, which takes one of them.
pub fn drop_capabilities() -> io::Result<()> {
    const PR_CAPBSET_DROP: libc::c_int = 24;
    for capability in 0..64 {
        // SAFETY: takes integers; a number above the last capability gives EINVAL.
        if unsafe { libc::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) } == 0 {
            continue;
        }
        match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EINVAL) => break,
            error => return Err(error),
        }
    }
    let mut header = CapabilityHeader::OWN;
    let data = [Capabilities::default(); 2];
    // SAFETY: version 3 wants one header and an array of two data records, which is what the pointers lead to.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether any capability but those in `known` is left to this process or could come back: permitted, effective, inheritable or
/// bounding.
pub fn has_capabilities(known: &[u32]) -> io::Result<bool> {
    const PR_CAPBSET_READ: libc::c_int = 23;
    let mut header = CapabilityHeader::OWN;
    let mut data = [Capabilities::default(); 2];
    // SAFETY: version 3 wants one header and an array of two data records, which is what the pointers lead to.
    let read = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    if read != 0 {
        return Err(io::Error::last_os_error());
    }
    for (data, first) in data.iter().zip([0, 32]) {
        let known = known.iter().filter_map(|number| number.checked_sub(first).filter(|bit| *bit < 32));
        let known = known.fold(0, |bits, bit| bits | 1 << bit);
        if (data.effective | data.permitted | data.inheritable) & !known != 0 {
            return Ok(true);
        }
    }
    for capability in 0..64 {
        // SAFETY: takes integers; a number above the last capability gives EINVAL, which ends the loop.
        match unsafe { libc::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) } {
            0 => {}
            1 if known.contains(&capability) => {}
            1 => return Ok(true),
            _ => break,
        }
    }
    Ok(false)
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
    let usage = Usage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
    };
    Ok(Some((Pid::from_raw(pid), change, usage)))
}

/// A child that has ended and is not taken in yet, and is not so by this.
#[must_use]
pub fn ended_child() -> Option<Pid> {
    // SAFETY: all-zero bytes are a valid siginfo.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is valid for writes; with WNOHANG the call returns at once.
    let asked = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, flags) };
    // SAFETY: waitid fills in this field, and leaves the zero when there is nothing to tell.
    let pid = if asked == 0 { unsafe { info.si_pid() } } else { 0 };
    (pid != 0).then(|| Pid::from_raw(pid))
}

/// Processor time that process `pid` itself has used, what came of its children left out; `None` without `/proc`.
#[must_use]
pub fn own_time(pid: Pid) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc_pid_stat(5): utime and stime are fields 14 and 15; the name, field 2, may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()?.saturating_add(ticks()?);
    let each = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let each = u64::try_from(each).ok().filter(|each| *each > 0)?;
    Some(Duration::from_millis(ticks.saturating_mul(1000) / each))
}

/// The soft limit on processor time of process `pid`, in seconds, also when it has ended.
///
/// The kernel raises it by a second with each SIGXCPU that it sends.
#[must_use]
pub fn soft_cpu_limit(pid: Pid) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a null new limit only queries, and `limit` is valid for writes.
    let read = unsafe { libc::prlimit(pid.as_raw(), libc::RLIMIT_CPU, std::ptr::null(), &raw mut limit) };
    (read == 0).then_some(limit.rlim_cur)
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
    // SAFETY: all-zero bytes are a valid siginfo.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is valid for writes; with WNOHANG the call returns at once.
    let asked = unsafe { libc::waitid(libc::P_PID, pid.as_raw().cast_unsigned(), &raw mut info, flags) };
    // SAFETY: waitid fills in this field, and leaves the zero when there is nothing to tell.
    asked == 0 && unsafe { info.si_pid() } != 0
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

/// The children of this process, which has one thread.
#[must_use]
pub fn children() -> Vec<Pid> {
    children_of(&format!("/proc/self/task/{}", nix::unistd::getpid()))
}

fn children_of(task: &str) -> Vec<Pid> {
    std::fs::read_to_string(format!("{task}/children"))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.parse().ok().map(Pid::from_raw))
        .collect()
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

/// All processes that come of this one, except `spare` and what comes of them.
fn descendants(spare: &[Pid]) -> Vec<Pid> {
    let mut all: Vec<Pid> = children().into_iter().filter(|child| !spare.contains(child)).collect();
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        next += 1;
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let found: Vec<_> = tasks.flat_map(|task| children_of(&task.path().to_string_lossy())).collect();
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
#[allow(clippy::disallowed_methods, reason = "sys is where processes are started")]
pub fn run(
    program: &Path,
    words: &[OsString],
    variables: &[(OsString, OsString)],
    patience: Duration,
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
        match poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)) {
            Ok(ready) => late = ready == 0,
            Err(nix::errno::Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<_> = polled.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty())).collect();
        drop(polled);
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
