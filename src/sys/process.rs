//! Fork, exec and facts about this process.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;

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

/// Whether any capability is left to this process or could come back: permitted, effective, inheritable or bounding.
pub fn has_capabilities() -> io::Result<bool> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    const PR_CAPBSET_READ: libc::c_int = 23;
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: version 3 wants one header and an array of two data records, which is what the pointers lead to.
    let read = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    if read != 0 {
        return Err(io::Error::last_os_error());
    }
    if data.iter().any(|d| d.effective | d.permitted | d.inheritable != 0) {
        return Ok(true);
    }
    for capability in 0..64 {
        // SAFETY: takes integers; a number above the last capability gives EINVAL, which ends the loop.
        match unsafe { libc::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) } {
            0 => {}
            1 => return Ok(true),
            _ => break,
        }
    }
    Ok(false)
}

/// The system's name for an error number, lower case as in our messages.
#[must_use]
pub fn reason(errno: i32) -> String {
    let text = nix::errno::Errno::from_raw(errno).desc();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// Kills every child of this process and, where it is a subreaper, their orphans after them, until none is left.
///
/// Bounded: a process that forks faster than it can be killed is given up after two seconds.
pub fn kill_children() {
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(2);
    while std::time::Instant::now() < deadline {
        for child in children() {
            // Gone is as good as killed.
            let _sent = nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL);
        }
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => std::thread::sleep(std::time::Duration::from_millis(1)),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// The children of this process, which has one thread.
fn children() -> Vec<Pid> {
    let pid = nix::unistd::getpid();
    std::fs::read_to_string(format!("/proc/self/task/{pid}/children"))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.parse().ok().map(Pid::from_raw))
        .collect()
}

/// What `program` prints on standard output when it is started with one argument and no environment.
#[allow(clippy::disallowed_methods, reason = "sys is where processes are started")]
pub fn output(program: &std::path::Path, argument: &str) -> io::Result<Vec<u8>> {
    let done = std::process::Command::new(program)
        .arg(argument)
        .env_clear()
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .output()?;
    Ok(done.stdout)
}
