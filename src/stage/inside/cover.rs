//! What is left to the inner stage to mount: masks, pins and protects by the hundred, in milliseconds, where bubblewrap would take
//! seconds and for masks a descriptor each, and device nodes read-only, which bubblewrap makes useless in doing so.
//!
//! Runs before anything else inside and leaves no capability behind. It makes nothing on the host: what has gone has no place
//! for a mount, and a mask of it is not needed.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statvfs::{FsFlags, statvfs};

use crate::host::mounts;
use crate::plan::{Check, Held};
use crate::sys;

/// Where the empty file and the empty directory are made; nobody can ask for a mask below it. What is there comes back.
const PLACE: &str = "/dev/pts";

/// The capabilities that this takes: `CAP_SETPCAP`, to give up all, and `CAP_SYS_ADMIN`, to mount.
pub const NEEDED: &[u32] = &[8, 21];

/// Mounts what `checks`, if given, leave to this stage, parents first, makes `devices` read-only, then gives up every capability.
pub fn cover(checks: Option<&[Check]>, devices: &[PathBuf]) -> io::Result<()> {
    // The mounts so far may belong to another user namespace than the one we have a say in: not those of root.
    if checks.is_some() || !nix::unistd::geteuid().is_root() {
        unshare(CloneFlags::CLONE_NEWNS)?;
    }
    if let Some(checks) = checks {
        hide(checks)?;
    }
    for device in devices {
        sys::mounts::set_read_only(None, device)?;
    }
    sys::process::drop_capabilities()
}

fn hide(checks: &[Check]) -> io::Result<()> {
    let none: Option<&Path> = None;
    let place = Path::new(PLACE);
    let (file, directory) = (place.join("file"), place.join("directory"));
    let locked = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(none, place, Some("tmpfs"), locked, Some("size=16k,mode=0755"))?;
    fs::write(&file, "")?;
    fs::create_dir(&directory)?;
    fs::set_permissions(&file, Permissions::from_mode(0o444))?;
    fs::set_permissions(&directory, Permissions::from_mode(0o555))?;
    // Each mount of a part of it is as read-only as this one.
    mount(none, place, none, locked | MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, none)?;
    let mut protected = Vec::new();
    for check in checks.iter().filter(|check| check.covered) {
        match check.held {
            Held::Shown => continue,
            Held::Hidden => {}
            Held::Pinned | Held::Protected => {
                on_itself(&check.path)?;
                if check.held == Held::Protected {
                    protected.push(check.path.as_path());
                }
                continue;
            }
        }
        let found = match fs::symlink_metadata(&check.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let empty = if found.is_dir() { &directory } else { &file };
        match mount(Some(empty), &check.path, none, MsFlags::MS_BIND, none) {
            // Gone in the meantime, or replaced by something of another kind: what was planned is seen to later.
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    read_only(&protected)?;
    umount2(place, MntFlags::MNT_DETACH)?;
    Ok(())
}

/// Mounts `path` on itself, with all that is mounted below.
fn on_itself(path: &Path) -> io::Result<()> {
    let none: Option<&Path> = None;
    Ok(mount(Some(path), path, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?)
}

/// Makes what is mounted at `places` and below them read-only.
fn read_only(places: &[&Path]) -> io::Result<()> {
    if places.is_empty() {
        return Ok(());
    }
    // Rarely is anything of the host mounted below one; the host's flags stay, as they have to.
    let table = mounts::table()?;
    let mounted: BTreeSet<PathBuf> = table.split(|byte| *byte == b'\n').filter_map(mounts::point).collect();
    for place in places {
        for at in mounted.range(place.to_path_buf()..).take_while(|at| at.starts_with(place)) {
            let none: Option<&Path> = None;
            let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | flags(at)?;
            mount(none, at, none, flags, none)?;
        }
    }
    Ok(())
}

/// What a remount has to repeat. How access times are kept is not of it: the kernel leaves that as it is where nothing is said.
fn flags(at: &Path) -> io::Result<MsFlags> {
    let found = statvfs(at)?.flags();
    let same = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
    ];
    Ok(same.into_iter().filter(|(is, _)| found.contains(*is)).map(|(_, set)| set).collect())
}
