//! Landlock, as far as this kernel knows it: the second wall behind mounts and namespaces, or all there is.
//!
//! Mounts bind names. A file that is reached by a descriptor (`/proc/self/fd/0`) has its own mount, which may be writable;
//! a process group may hold processes outside. Landlock binds what a process does, by whichever way it got there.

use std::os::fd::BorrowedFd;
use std::path::Path;

use std::io;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

/// Version of Landlock on this kernel; 0 when it has none.
///
/// Asks the system call: `/sys/kernel/security/lsm` is often not there.
#[must_use]
pub fn version() -> i32 {
    probe().unwrap_or(0)
}

/// The same, or why there is none: ENOSYS is not built in, EOPNOTSUPP switched off at boot, EPERM a filter's answer.
pub fn probe() -> io::Result<i32> {
    const VERSION: libc::c_uint = 1;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with a null attribute of size 0 and this flag the call only answers the version.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) };
    if abi < 0 { Err(io::Error::last_os_error()) } else { Ok(i32::try_from(abi).unwrap_or(i32::MAX)) }
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

/// Whether it can keep a process from connecting by TCP and being connected to (ABI 4, Linux 6.7).
#[must_use]
pub fn binds_ports(version: i32) -> bool {
    version >= ABI::V4 as i32
}

/// Whether it can keep a process from Unix sockets by their paths (ABI 9, Linux 7.1).
#[must_use]
pub fn binds_sockets(version: i32) -> bool {
    version >= ABI::V9 as i32
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

/// What may be done with a file, or below a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "rights that have nothing to do with each other")]
pub struct Rights {
    /// Directories can be listed.
    pub list: bool,
    /// Files can be read and executed.
    pub read: bool,
    /// Files can be written, and made and removed.
    pub write: bool,
    /// Devices can be set.
    pub set: bool,
    /// Unix sockets can be connected to.
    pub connect: bool,
}

/// A ruleset in the making, which handles all that this program knows of and the kernel has.
pub struct Domain {
    ruleset: RulesetCreated,
    abi: ABI,
}

impl Domain {
    /// A ruleset that allows nothing. Of what is newer than `version` nothing is handled, and the caller has to see to it by
    /// other means.
    pub fn new(version: i32, no_tcp: bool) -> anyhow::Result<Self> {
        // What a newer kernel adds was not tried with this program.
        let abi = ABI::from(version);
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))?;
        if no_tcp && abi >= ABI::V4 {
            ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V4))?;
        }
        if scopes(version) {
            ruleset = ruleset.scope(Scope::from_all(ABI::V6))?;
        }
        Ok(Self { ruleset: ruleset.create()?, abi })
    }

    /// Allows `rights` with `file`, as far as they make sense for its kind.
    pub fn allow(&mut self, file: BorrowedFd, directory: bool, rights: Rights) -> anyhow::Result<()> {
        let read = AccessFs::from_read(self.abi);
        let special = AccessFs::IoctlDev | AccessFs::ResolveUnix;
        let write = AccessFs::from_write(self.abi) & !special;
        let mut access = BitFlags::EMPTY;
        for (wanted, which) in [
            (rights.list, AccessFs::ReadDir.into()),
            (rights.read, read),
            (rights.write, write),
            (rights.set, AccessFs::IoctlDev.into()),
            (rights.connect, AccessFs::ResolveUnix.into()),
        ] {
            if wanted {
                access |= which;
            }
        }
        access &= if directory { AccessFs::from_all(self.abi) } else { AccessFs::from_file(self.abi) };
        if !access.is_empty() {
            (&mut self.ruleset).add_rule(PathBeneath::new(file, access))?;
        }
        Ok(())
    }

    /// Puts it on this process and all it starts. Sets `no_new_privs`.
    pub fn close(self) -> anyhow::Result<()> {
        let mut ruleset = self.ruleset;
        // What this process itself is refused from here on was only tried out.
        if self.abi >= ABI::V7 {
            ruleset = ruleset.log_same_exec(false)?;
        }
        let status = ruleset.restrict_self()?;
        anyhow::ensure!(
            status.ruleset == RulesetStatus::FullyEnforced && status.no_new_privs,
            "the kernel does not enforce all of the rules"
        );
        Ok(())
    }
}
