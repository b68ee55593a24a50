//! Facts about processes, and what one process does to itself.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Pid};

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

/// Gives up every capability for good: the bounding set first, which takes one of them. Who has not that one gives up the rest,
/// and `no_new_privs` keeps what is left in the bounding set from coming back.
pub fn drop_capabilities() -> io::Result<()> {
    const PR_CAPBSET_DROP: libc::c_int = 24;
    for capability in 0..64 {
        // SAFETY: takes integers; a number above the last capability gives EINVAL.
        if unsafe { libc::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) } == 0 {
            continue;
        }
        match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => break,
            error => return Err(error),
        }
    }
    let mut header = CapabilityHeader::OWN;
    let data = [Capabilities::default(); 2];
    // SAFETY: version 3 wants one header and an array of two data records, which is what the pointers lead to.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether any capability but those in `known` is left to this process: permitted, effective or inheritable.
pub fn holds_capabilities(known: &[u32]) -> io::Result<bool> {
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
    Ok(false)
}

/// The same, or could come back: in the bounding set.
pub fn has_capabilities(known: &[u32]) -> io::Result<bool> {
    const PR_CAPBSET_READ: libc::c_int = 23;
    /// `CAP_AUDIT_READ`, which every kernel has that this program can run on.
    const LAST_OF_ALL: u32 = 37;
    if holds_capabilities(known)? {
        return Ok(true);
    }
    for capability in 0..64 {
        // SAFETY: takes integers; a number above the last capability gives EINVAL.
        match unsafe { libc::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) } {
            0 => {}
            1 if known.contains(&capability) => {}
            1 => return Ok(true),
            _ => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINVAL) && capability > LAST_OF_ALL => break,
                // Not told is not gone.
                error => return Err(error),
            },
        }
    }
    Ok(false)
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

/// Whether the system tells this process of its children: not without `/proc`, and not where Landlock closes that.
#[must_use]
pub fn knows_children() -> bool {
    std::fs::File::open(format!("/proc/self/task/{}/children", nix::unistd::getpid())).is_ok()
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

/// The children of process `pid`, of all its threads.
pub(in crate::sys) fn children_of_process(pid: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.flat_map(|task| children_of(&task.path().to_string_lossy())).collect()
}

/// Has orphans of our descendants come to us.
pub fn adopt_orphans() -> nix::Result<()> {
    nix::sys::prctl::set_child_subreaper(true)
}

/// Kills what is left of a session: what comes of us is found by itself, since orphans come to us.
pub fn end_session(_: Pid) {}

/// Has the kernel end this process when its parent ends.
pub fn end_with_parent() -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)
}

/// Keeps others of this user from tracing this process, reading its memory or its environment.
pub fn hide() -> nix::Result<()> {
    nix::sys::prctl::set_dumpable(false)
}

/// Whether real, effective and saved ids of this process are the same, of user and group alike.
#[must_use]
pub fn is_one_user() -> bool {
    let user = nix::unistd::getresuid().is_ok_and(|ids| ids.real == ids.effective && ids.effective == ids.saved);
    user && nix::unistd::getresgid().is_ok_and(|ids| ids.real == ids.effective && ids.effective == ids.saved)
}

/// The groups of this process besides its own.
pub fn groups() -> nix::Result<Vec<Gid>> {
    nix::unistd::getgroups()
}

/// Our own executable by its name, if it still has one.
#[must_use]
pub fn image() -> Option<PathBuf> {
    // No name of a file where it was executed from a mount that has no place.
    std::fs::read_link("/proc/self/exe").ok()
}

/// The memory that the kernel tells of in a usage, in KiB.
pub(in crate::sys) fn kibibytes(told: libc::c_long) -> u64 {
    u64::try_from(told).unwrap_or(0)
}

/// Resources whose limits a process inherits, as far as something can be bounded by them.
pub const INHERITED: &[Resource] = &[
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_STACK,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_AS,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_SIGPENDING,
];

/// Sets a limit on the processes of this user, for this process and what comes of it. A lower hard limit stays.
pub fn limit_processes(most: u64) -> nix::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NPROC)?;
    let most = most.min(hard);
    setrlimit(Resource::RLIMIT_NPROC, most, most)
}
