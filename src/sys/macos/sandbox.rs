//! What the kernel says about the sandbox around a process.

use nix::unistd::Pid;

unsafe extern "C" {
    /// Of libSystem, without a header: browsers have asked by it for many years.
    fn sandbox_check(pid: libc::pid_t, operation: *const libc::c_char, kind: libc::c_int, ...) -> libc::c_int;
}

/// Whether `process` is inside a sandbox.
#[must_use]
pub fn is_confined(process: Pid) -> bool {
    // SAFETY: without an operation the call takes no further arguments and only answers.
    unsafe { sandbox_check(process.as_raw(), std::ptr::null(), 0) != 0 }
}
