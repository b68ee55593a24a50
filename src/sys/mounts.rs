//! Making a mount read-only, and leaving everything else about it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::statvfs::{FsFlags, statvfs};

/// `struct mount_attr`.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    namespace: u64,
}

/// Makes the mount at `path`, or the one that `tree` is open on when the path is empty, read-only and without setuid. Device
/// nodes on it work as before.
pub fn set_read_only(tree: Option<BorrowedFd>, path: &Path) -> io::Result<()> {
    const RDONLY: u64 = 1;
    const NOSUID: u64 = 2;
    let attributes = Attributes { set: RDONLY | NOSUID, clear: 0, propagation: 0, namespace: 0 };
    let name = CString::new(path.as_os_str().as_bytes())?;
    let from = tree.map_or(libc::AT_FDCWD, |tree| tree.as_raw_fd());
    let flags = if tree.is_some() { libc::AT_EMPTY_PATH } else { libc::AT_SYMLINK_NOFOLLOW };
    let size = size_of::<Attributes>();
    // SAFETY: name and attributes outlive the call, and the size is that of the attributes.
    let set = unsafe {
        libc::syscall(libc::SYS_mount_setattr, from, name.as_ptr(), flags, std::ptr::from_ref(&attributes), size)
    };
    if set == 0 {
        return Ok(());
    }
    match Errno::last() {
        // Before Linux 5.12 there is no such call.
        Errno::ENOSYS if tree.is_none() => remount(path),
        errno => Err(errno.into()),
    }
}

/// The same by the older call, which wants to be told what is to stay, but for how access times are kept.
fn remount(path: &Path) -> io::Result<()> {
    let kept = [(FsFlags::ST_NODEV, MsFlags::MS_NODEV), (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC)];
    let found = statvfs(path)?.flags();
    let flags =
        kept.iter().filter(|(has, _)| found.contains(*has)).fold(
            MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID,
            |flags, (_, keeps)| flags | *keeps,
        );
    let none: Option<&Path> = None;
    Ok(mount(none, path, none, flags, none)?)
}
