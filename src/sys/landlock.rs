//! The second wall: what mounts and namespaces cannot say, said to Landlock, as far as this kernel knows it.
//!
//! Mounts bind names. A file that is reached by a descriptor (`/proc/self/fd/0`) has its own mount, which may be writable;
//! a process group may hold processes outside. Landlock binds what a process does, by whichever way it got there.

use std::os::fd::BorrowedFd;
use std::path::Path;

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    Scope,
};

/// Version of Landlock on this kernel; 0 when it has none.
///
/// Asks the system call: `/sys/kernel/security/lsm` is often not there.
#[must_use]
pub fn version() -> i32 {
    const VERSION: libc::c_uint = 1;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with a null attribute of size 0 and this flag the call only answers the version.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) };
    i32::try_from(abi).unwrap_or(0).max(0)
}

/// Whether the kernel can keep a process from abstract sockets and from signals to processes outside (ABI 6, Linux 6.12).
#[must_use]
pub fn scopes(version: i32) -> bool {
    version >= ABI::V6 as i32
}

/// Whether the kernel can keep a process from writing without forbidding renames between directories (ABI 2, Linux 5.19).
#[must_use]
pub fn binds_writing(version: i32) -> bool {
    version >= ABI::V2 as i32
}

/// Whether it can keep a process from emptying what it cannot write (ABI 3, Linux 6.2).
#[must_use]
pub fn binds_emptying(version: i32) -> bool {
    version >= ABI::V3 as i32
}

/// Where this process may write, and what it may reach besides files.
#[derive(Debug)]
pub struct Wall<'a> {
    /// Files and directories, by name.
    pub writable: &'a [&'a Path],
    /// Files and directories, by descriptor.
    pub streams: &'a [BorrowedFd<'a>],
    /// Whether abstract sockets made outside are out of reach.
    pub scope_sockets: bool,
}

/// Raises the wall around this process and all it starts, as high as `version` allows.
pub fn raise(wall: &Wall, version: i32) -> anyhow::Result<()> {
    if !binds_writing(version) {
        return Ok(());
    }
    let mut writing: BitFlags<AccessFs> = AccessFs::WriteFile.into();
    if binds_emptying(version) {
        writing |= AccessFs::Truncate;
    }
    let mut ruleset =
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(writing | AccessFs::Refer)?;
    if scopes(version) {
        ruleset = ruleset.scope(Scope::Signal)?;
        if wall.scope_sockets {
            ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
        }
    }
    // Moving files between directories is the mounts' affair; without this rule any ruleset forbids it.
    let mut created = ruleset.create()?.add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::Refer))?;
    for path in wall.writable {
        created = created.add_rule(PathBeneath::new(PathFd::new(path)?, writing))?;
    }
    for stream in wall.streams {
        // A file in memory has no place in a tree and needs no rule. Whatever else fails here only forbids more.
        let _added = (&mut created).add_rule(PathBeneath::new(stream, writing));
    }
    created.restrict_self()?;
    Ok(())
}
