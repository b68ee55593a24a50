//! What is mounted: flags of a mount, and trees of mounts on their way from one place to another.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
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

/// What a mount is to refuse from here on. Nothing that it refuses already is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Writing.
    pub write: bool,
    /// Opening device nodes.
    pub devices: bool,
}

impl Refused {
    /// For `mount_setattr`: setuid is refused in any case.
    fn attributes(self) -> u64 {
        const RDONLY: u64 = 1;
        const NOSUID: u64 = 2;
        const NODEV: u64 = 4;
        NOSUID | if self.write { RDONLY } else { 0 } | if self.devices { NODEV } else { 0 }
    }

    /// The same for `mount`.
    fn flags(self) -> MsFlags {
        let mut flags = MsFlags::MS_NOSUID;
        flags.set(MsFlags::MS_RDONLY, self.write);
        flags.set(MsFlags::MS_NODEV, self.devices);
        flags
    }
}

/// Makes the mount at `path`, or the one that `tree` is open on when the path is empty, read-only and without setuid. Device
/// nodes on it work as before.
pub fn set_read_only(tree: Option<BorrowedFd>, path: &Path) -> io::Result<()> {
    let refused = Refused { write: true, devices: false };
    let name = CString::new(path.as_os_str().as_bytes())?;
    let flags = if tree.is_some() { libc::AT_EMPTY_PATH } else { libc::AT_SYMLINK_NOFOLLOW };
    match set(tree.map_or(libc::AT_FDCWD, |tree| tree.as_raw_fd()), &name, flags, refused) {
        // Before Linux 5.12 there is no such call.
        Err(Errno::ENOSYS) if tree.is_none() => remount(path, refused),
        done => Ok(done?),
    }
}

fn set(from: i32, name: &CStr, flags: libc::c_int, refused: Refused) -> nix::Result<()> {
    let attributes = Attributes { set: refused.attributes(), clear: 0, propagation: 0, namespace: 0 };
    let size = size_of::<Attributes>();
    // SAFETY: name and attributes outlive the call, and the size is that of the attributes.
    let set = unsafe {
        libc::syscall(libc::SYS_mount_setattr, from, name.as_ptr(), flags, std::ptr::from_ref(&attributes), size)
    };
    Errno::result(set).map(drop)
}

/// The same by the older call, which wants to be told what is to stay, but for how access times are kept.
pub fn remount(path: &Path, refused: Refused) -> io::Result<()> {
    let kept = [
        (FsFlags::ST_RDONLY, MsFlags::MS_RDONLY),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
    ];
    let found = statvfs(path)?.flags();
    let flags = kept
        .iter()
        .filter(|(has, _)| found.contains(*has))
        .fold(MsFlags::MS_REMOUNT | MsFlags::MS_BIND | refused.flags(), |flags, (_, keeps)| flags | *keeps);
    let none: Option<&Path> = None;
    Ok(mount(none, path, none, flags, none)?)
}

/// A copy of a mount that has no place yet, or of a file or directory as one.
#[derive(Debug)]
pub struct Tree(OwnedFd);

impl Tree {
    /// Of `path` as seen from an open directory, or of that if it is empty, with all that is mounted below if `whole`. Its last part
    /// is not followed if it is a link.
    pub fn of(from: impl AsFd, path: &Path, whole: bool) -> io::Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
        Ok(open(from.as_fd().as_raw_fd(), &name, flags, whole)?)
    }

    /// Of what is open.
    pub fn of_open(file: impl AsFd) -> nix::Result<Self> {
        open(file.as_fd().as_raw_fd(), c"", libc::AT_EMPTY_PATH, false)
    }

    /// Has it refuse, with all that is mounted below if `whole`. `ENOSYS` before Linux 5.12.
    pub fn refuse(&self, refused: Refused, whole: bool) -> nix::Result<()> {
        let recursive = if whole { libc::AT_RECURSIVE } else { 0 };
        set(self.0.as_raw_fd(), c"", libc::AT_EMPTY_PATH | recursive, refused)
    }

    /// Mounts it on `name` in an open directory, which is not followed if it is a link.
    pub fn attach(&self, directory: impl AsFd, name: &OsStr) -> io::Result<()> {
        const FROM_EMPTY_PATH: libc::c_uint = 4;
        let name = CString::new(name.as_bytes())?;
        let (from, to) = (self.0.as_raw_fd(), directory.as_fd().as_raw_fd());
        // SAFETY: both names outlive the call; everything else is an integer.
        let moved =
            unsafe { libc::syscall(libc::SYS_move_mount, from, c"".as_ptr(), to, name.as_ptr(), FROM_EMPTY_PATH) };
        Ok(Errno::result(moved).map(drop)?)
    }
}

impl From<Tree> for OwnedFd {
    fn from(tree: Tree) -> Self {
        tree.0
    }
}

impl AsFd for Tree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open(from: i32, name: &CStr, flags: libc::c_int, whole: bool) -> nix::Result<Tree> {
    const CLONE: libc::c_int = 1;
    let recursive = if whole { libc::AT_RECURSIVE } else { 0 };
    let flags = flags | recursive | CLONE | libc::O_CLOEXEC | libc::AT_NO_AUTOMOUNT;
    // SAFETY: the name outlives the call; everything else is an integer.
    let tree = Errno::result(unsafe { libc::syscall(libc::SYS_open_tree, from, name.as_ptr(), flags) })?;
    let tree = i32::try_from(tree).map_err(|_| Errno::EBADF)?;
    // SAFETY: the call just returned this descriptor, so it is open and ours alone.
    Ok(Tree(unsafe { OwnedFd::from_raw_fd(tree) }))
}
