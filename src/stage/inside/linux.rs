//! Inside namespaces: what has to be so there, what is left to mount, and the walls that the target gets around itself.

#[path = "cover.rs"]
mod cover;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{Pid, getpid};
use serde::{Deserialize, Serialize};

use super::control::Step;
use super::handoff::{Handoff, filter};
use super::inner::{At, Failure};
use crate::backend::Backend;
use crate::host::mounts;
use crate::plan::base::DEVICES;
use crate::plan::{Held, Plan, identity};
use crate::policy::Network;
use crate::sys::landlock::Wall;
use crate::{seccomp, sys};

/// What must hold inside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Isolation {
    /// Inodes of the namespaces outside, which must differ inside: user, mnt, pid; 0, which none has, where it may be the same.
    pub outside: [u64; 3],
    /// Whether nothing may be writable but what the plan says, which a launcher of ours is trusted with.
    pub mounts: bool,
    /// Inode of the network namespace outside, when the target must not be in it.
    pub network: Option<u64>,
    /// Whether to close abstract sockets by Landlock.
    pub scope_sockets: bool,
    /// Version of Landlock on this kernel.
    pub landlock: i32,
    /// What the system-call filter depends on.
    pub filter: seccomp::Options,
    /// Whether mounts are left to the inner stage.
    pub cover: bool,
}

/// Inode of a namespace of this process.
fn namespace(kind: &str) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(format!("/proc/self/ns/{kind}"))?.ino())
}

/// What must differ inside, read outside.
pub fn isolation(plan: &Plan) -> io::Result<Isolation> {
    let container = matches!(plan.backend, Backend::Container(_));
    Ok(Isolation {
        // The service of an engine that is root's makes no user namespace; its containers have no capability instead.
        outside: [if container { 0 } else { namespace("user")? }, namespace("mnt")?, namespace("pid")?],
        mounts: container,
        network: match plan.network {
            Network::Off => Some(namespace("net")?),
            Network::Host => None,
        },
        scope_sockets: plan.scope_sockets,
        landlock: sys::landlock::version(),
        filter: filter(plan),
        cover: plan.backend == Backend::Bwrap && !(plan.covers.is_empty() && plan.frozen.is_empty()),
    })
}

/// Before there is any target: it must not trace this process, read its memory or its environment.
pub(super) fn shut() -> Result<(), Failure> {
    sys::process::hide().at(Step::Privileges)
}

/// Makes sure that this process is where it has to be, and does what is left to it there.
pub(super) fn enter(handoff: &Handoff, isolation: &Isolation) -> Result<(), Failure> {
    // Before anything is mounted: it must not be in the namespace of the host.
    verify_place(isolation)?;
    if isolation.cover {
        if sys::process::has_capabilities(cover::NEEDED).at(Step::Privileges)? {
            return Err(Failure(Step::Privileges, 0));
        }
        let checks = handoff.checks.iter().any(|check| check.covered).then_some(&*handoff.checks);
        cover::cover(checks, &handoff.devices).at(Step::Cover)?;
    }
    verify_privileges()?;
    verify_view(handoff)?;
    if isolation.mounts { verify_mounts(handoff) } else { Ok(()) }
}

/// What the kernel says has to agree with what was planned.
fn verify_place(isolation: &Isolation) -> Result<(), Failure> {
    if getpid() != Pid::from_raw(1) {
        return Err(Failure(Step::NotIsolated, 0));
    }
    for (kind, outside) in ["user", "mnt", "pid"].into_iter().zip(isolation.outside) {
        if namespace(kind).at(Step::NotIsolated)? == outside {
            return Err(Failure(Step::NotIsolated, 0));
        }
    }
    if let Some(outside) = isolation.network
        && namespace("net").at(Step::NotIsolated)? == outside
    {
        return Err(Failure(Step::NotIsolated, 0));
    }
    Ok(())
}

/// No privilege is left, and none can come back.
fn verify_privileges() -> Result<(), Failure> {
    if root_could_set_the_kernel().at(Step::Privileges)? {
        return Err(Failure(Step::Privileges, 0));
    }
    if !sys::process::has_no_new_privs() || sys::process::has_capabilities(&[]).at(Step::Privileges)? {
        return Err(Failure(Step::Privileges, 0));
    }
    Ok(())
}

/// Whether we are root and `/proc/sys` can be written: the kernel asks there for the user and not for capabilities.
fn root_could_set_the_kernel() -> nix::Result<bool> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(false);
    }
    match is_read_only(Path::new("/proc/sys")) {
        Ok(read_only) => Ok(!read_only),
        Err(Errno::ENOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Every grant is the file that was planned, no mask lets it through, no protect can be written, and the last mount operation was
/// carried out.
fn verify_view(handoff: &Handoff) -> Result<(), Failure> {
    let by_engine = handoff.header.container.is_some();
    for check in &handoff.checks {
        let shown = check.held != Held::Hidden;
        let found = match std::fs::symlink_metadata(&check.path) {
            // The host has removed what was to be hidden, and the mask went with it.
            Err(error) if !shown && error.kind() == io::ErrorKind::NotFound => continue,
            found => found.at(Step::View)?,
        };
        let same = identity(&check.path, &found, check.held, by_engine) == (check.device, check.inode);
        if same != shown || (check.held == Held::Protected && !is_read_only(&check.path).at(Step::View)?) {
            return Err(Failure(Step::View, 0));
        }
    }
    if is_read_only(&handoff.seal).at(Step::Incomplete)? { Ok(()) } else { Err(Failure(Step::Incomplete, 0)) }
}

/// Nothing is writable but what was planned: a mount below a read grant, or something that the engine adds.
fn verify_mounts(handoff: &Handoff) -> Result<(), Failure> {
    // With a link of the image on the way an engine mounts elsewhere, and what is written goes to where that leads.
    if handoff.writable.iter().any(|place| std::fs::canonicalize(place).map_or(true, |end| end != *place)) {
        return Err(Failure(Step::View, 0));
    }
    let table = mounts::table().at(Step::Writable)?;
    let planned = |at: &Path| handoff.writable.iter().any(|place| at.starts_with(place));
    let mut lines = table.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    if lines.all(|line| mounts::point(line).is_some_and(|at: PathBuf| planned(&at) || is_mounted_read_only(line))) {
        return Ok(());
    }
    Err(Failure(Step::Writable, 0))
}

/// Whether a line of `mountinfo` is of a mount, or of a file system, that is read-only.
fn is_mounted_read_only(line: &[u8]) -> bool {
    let read_only = |field: &[u8]| field.split(|byte| *byte == b',').any(|option| option == b"ro");
    let mut fields = line.split(|byte| *byte == b' ');
    fields.nth(5).is_some_and(read_only) || fields.next_back().is_some_and(read_only)
}

/// Whether the mount at `path` refuses writing.
fn is_read_only(path: &Path) -> nix::Result<bool> {
    Ok(nix::sys::statvfs::statvfs(path)?.flags().contains(nix::sys::statvfs::FsFlags::ST_RDONLY))
}

/// A standard stream as the target gets it.
pub(super) fn stream(handoff: &Handoff, stream: OwnedFd) -> OwnedFd {
    if handoff.devices.is_empty() { stream } else { device_inside(stream) }
}

/// The same device by its name inside, where its node cannot be changed; `stream` itself when it is none of those that are
/// there.
fn device_inside(stream: OwnedFd) -> OwnedFd {
    use nix::sys::stat::{SFlag, fstat, makedev};
    let Ok(found) = fstat(&stream) else { return stream };
    if SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT != SFlag::S_IFCHR {
        return stream;
    }
    let known = DEVICES.iter().find(|(_, major, minor)| makedev(*major, *minor) == found.st_rdev);
    let reopened = known.and_then(|(name, ..)| sys::fd::reopen(&stream, &Path::new("/dev").join(name)));
    reopened.unwrap_or(stream)
}

/// In the process that becomes the target: what it may do from here on.
pub(super) fn confine(handoff: &Handoff, isolation: &Isolation) -> Result<(), Failure> {
    wall(handoff, isolation).map_err(|_| Failure(Step::Landlock, 0))?;
    let filter = seccomp::program(isolation.filter);
    // As late as can be: what comes before needs descriptors and memory of its own.
    handoff.header.rlimits.apply().at(Step::Limits)?;
    sys::filter::load(&filter).at(Step::Filter)
}

/// Lets the target write where the view can be written and into the descriptors that it was given for writing, and nowhere
/// else: a descriptor for reading could be opened anew by its path in `/proc`, on the mount of the host.
fn wall(handoff: &Handoff, isolation: &Isolation) -> anyhow::Result<()> {
    let writable: Vec<&Path> = handoff.writable.iter().map(PathBuf::as_path).collect();
    let given = (0..3).chain(handoff.header.keep.iter().copied());
    let streams: Vec<_> = given.filter_map(sys::fd::writable).collect();
    let wall = Wall { writable: &writable, streams: &streams, scope_sockets: isolation.scope_sockets };
    sys::landlock::raise(&wall, isolation.landlock)
}
