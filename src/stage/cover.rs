//! Masks by the hundred: mounted by the inner stage, in milliseconds, where bubblewrap would take seconds and a descriptor each.
//!
//! Runs before anything else inside and leaves no capability behind. It makes nothing on the host: what has gone has no place
//! for a mount, and needs none.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use crate::plan::Check;
use crate::sys;

/// Where the empty file and the empty directory are made; nobody can ask for a mask below it. What is there comes back.
const PLACE: &str = "/dev/pts";

/// Hides what `checks` say is hidden and is not yet, then gives up every capability.
pub fn cover(checks: &[Check]) -> io::Result<()> {
    let none: Option<&Path> = None;
    // The mounts so far may belong to another user namespace than the one we have a say in.
    unshare(CloneFlags::CLONE_NEWNS)?;
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
    for check in checks.iter().filter(|check| !check.same) {
        let found = match fs::symlink_metadata(&check.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // On another file system: the launcher has mounted its mask there.
        if found.dev() != check.device {
            continue;
        }
        let empty = if found.is_dir() { &directory } else { &file };
        match mount(Some(empty), &check.path, none, MsFlags::MS_BIND, none) {
            // Gone in the meantime, or replaced by something of another kind: what was planned is seen to later.
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    umount2(place, MntFlags::MNT_DETACH)?;
    sys::process::drop_capabilities()
}
