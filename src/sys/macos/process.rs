//! Facts about processes, and what one process does to itself.

use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Gid, Pid, getsid};

/// The children of this process.
#[must_use]
pub fn children() -> Vec<Pid> {
    children_of_process(nix::unistd::getpid())
}

/// The children of process `pid`; none where that is not told.
pub(in crate::sys) fn children_of_process(pid: Pid) -> Vec<Pid> {
    listed(|numbers, size| {
        // SAFETY: the buffer has the size that is told.
        unsafe { libc::proc_listchildpids(pid.as_raw(), numbers, size) }
    })
}

/// Numbers that `list` writes into a buffer of so many bytes, of which it returns how many they are.
fn listed(list: impl Fn(*mut libc::c_void, libc::c_int) -> libc::c_int) -> Vec<Pid> {
    let mut numbers: Vec<libc::pid_t> = vec![0; 1024];
    loop {
        let size = numbers.len() * size_of::<libc::pid_t>();
        let Ok(size) = libc::c_int::try_from(size) else { return Vec::new() };
        let Ok(count) = usize::try_from(list(numbers.as_mut_ptr().cast(), size)) else { return Vec::new() };
        // A full one may have been too small.
        if count < numbers.len() {
            numbers.truncate(count);
            return numbers.into_iter().filter(|number| *number > 0).map(Pid::from_raw).collect();
        }
        numbers.resize(numbers.len() * 2, 0);
    }
}

/// How long a tick of the processor's clock is: so many nanoseconds for so many ticks.
#[repr(C)]
struct Timebase {
    nanoseconds: u32,
    ticks: u32,
}

unsafe extern "C" {
    /// Of libSystem: `mach/mach_time.h`.
    fn mach_timebase_info(info: *mut Timebase) -> libc::c_int;
}

/// Processor time that process `pid` itself has used, what came of its children left out, also when it has ended.
#[must_use]
pub fn own_time(pid: Pid) -> Option<Duration> {
    // SAFETY: all-zero bytes are a valid record.
    let mut usage: libc::rusage_info_v4 = unsafe { std::mem::zeroed() };
    // SAFETY: the record is of the kind that is named.
    let told = unsafe { libc::proc_pid_rusage(pid.as_raw(), libc::RUSAGE_INFO_V4, (&raw mut usage).cast()) };
    let mut base = Timebase { nanoseconds: 0, ticks: 0 };
    // SAFETY: `base` is valid for writes.
    let known = unsafe { mach_timebase_info(&raw mut base) };
    if told != 0 || known != 0 || base.ticks == 0 {
        return None;
    }
    let ticks = u128::from(usage.ri_user_time) + u128::from(usage.ri_system_time);
    let nanoseconds = ticks * u128::from(base.nanoseconds) / u128::from(base.ticks);
    u64::try_from(nanoseconds).ok().map(Duration::from_nanos)
}

/// The soft limit on processor time of another process: not told.
#[must_use]
pub fn soft_cpu_limit(_: Pid) -> Option<u64> {
    None
}

/// Orphans go to the first process of the system, and nobody can have them: one that hides so is said to outlive a run.
pub fn adopt_orphans() -> nix::Result<()> {
    Ok(())
}

/// Kills what is left of the session that `leader` began: orphans are in it that are nobody's children of ours.
pub fn end_session(leader: Pid) {
    // Most are in its group, which can be told to end without being listed.
    let _sent = killpg(leader, Signal::SIGKILL);
    for process in listed(|numbers, size| {
        // SAFETY: the buffer has the size that is told.
        unsafe { libc::proc_listallpids(numbers, size) }
    }) {
        if getsid(Some(process)) == Ok(leader) {
            let _sent = kill(process, Signal::SIGKILL);
        }
    }
}

/// Nothing ends a process with its parent: what is left when both stages are killed at once is said to outlive a run.
pub fn end_with_parent() -> nix::Result<()> {
    Ok(())
}

/// Keeps others of this user from tracing this process and from reading its memory, and keeps that out of core files.
pub fn hide() -> nix::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    // SAFETY: the request takes no address and no data.
    Errno::result(unsafe { libc::ptrace(libc::PT_DENY_ATTACH, 0, std::ptr::null_mut(), 0) }).map(drop)
}

/// Whether real and effective ids of this process are the same, of user and group alike.
#[must_use]
pub fn is_one_user() -> bool {
    use nix::unistd::{getegid, geteuid, getgid, getuid};
    getuid() == geteuid() && getgid() == getegid()
}

/// The groups of this process besides its own.
pub fn groups() -> nix::Result<Vec<Gid>> {
    // SAFETY: without room it only says how many there are.
    let count = Errno::result(unsafe { libc::getgroups(0, std::ptr::null_mut()) })?;
    let mut groups: Vec<libc::gid_t> = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is room for as many as are named.
    let count = Errno::result(unsafe { libc::getgroups(count, groups.as_mut_ptr()) })?;
    groups.truncate(usize::try_from(count).unwrap_or(0));
    Ok(groups.into_iter().map(Gid::from_raw).collect())
}

/// Our own executable by its name.
#[must_use]
pub fn image() -> Option<PathBuf> {
    std::env::current_exe().and_then(std::fs::canonicalize).ok()
}

/// The memory that the kernel tells of in a usage, in KiB.
pub(in crate::sys) fn kibibytes(told: libc::c_long) -> u64 {
    u64::try_from(told).unwrap_or(0) >> 10
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
];

/// Sets a limit on the processes of this user, for this process and what comes of it. A lower hard limit stays.
pub fn limit_processes(most: u64) -> nix::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writes.
    Errno::result(unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit) })?;
    let most = most.min(limit.rlim_max);
    limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: `limit` is valid for reads.
    Errno::result(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) }).map(drop)
}
