//! What Landlock offers on this kernel, and the one ruleset that needs no path: scoping of abstract sockets.

use landlock::{ABI, Ruleset, RulesetAttr, RulesetError, RulesetStatus, Scope};

/// Whether the kernel can keep this process from abstract sockets made outside (Landlock ABI 6, Linux 6.12).
///
/// Asks the system call: `/sys/kernel/security/lsm` is often not there.
#[must_use]
pub fn scopes_abstract_sockets() -> bool {
    const VERSION: libc::c_uint = 1;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with a null attribute of size 0 and this flag the call only answers the version.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) };
    abi >= ABI::V6 as libc::c_long
}

/// Keeps this process and all it starts from abstract sockets made outside.
pub fn scope_abstract_sockets() -> Result<bool, RulesetError> {
    let status = Ruleset::default().scope(Scope::AbstractUnixSocket)?.create()?.restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}
