//! The keyring of the session.

use std::io;

/// Leaves the session keyring of the caller for a new one, which ends with the last process that has it.
///
/// Fails where the kernel has no keyrings, a container forbids the call, or the user has used up his quota of keys.
pub fn leave() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: libc::c_int = 1;
    let unnamed = std::ptr::null::<libc::c_char>();
    // SAFETY: takes an integer and a name; a null one stands for a new keyring without a name.
    let serial = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, unnamed) };
    if serial == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
