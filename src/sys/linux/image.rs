//! Our own executable as it is handed to a sandbox: in a form through which nobody inside can change the file of the host.
//!
//! A program that is executed can be reached by `/proc/PID/exe`, on the mount from which it was executed: its owner could
//! change mode, times and attributes there, whatever is mounted read-only in the view.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;
use nix::sys::statvfs::{FsFlags, fstatvfs};

use super::fd::SEALS;

const EXE: &str = "/proc/self/exe";

/// Our own executable, to be executed by its number, wherever it lies.
///
/// The file itself where this user cannot change it. Else a read-only mount of it, which costs microseconds and is had by
/// root alone, or a copy in memory, which costs a fifth of a start: a plan for others has a mount of it instead, while the
/// file has a name. Where there is nothing of all this, the file: nobody gets at it but by the names in `/proc` that a plan
/// refuses to execute.
pub fn own() -> io::Result<OwnedFd> {
    let file = at_path(EXE)?;
    if !is_changeable(&file)? {
        return Ok(file);
    }
    match read_only(&file).or_else(|_| copy()) {
        Ok(image) => Ok(image),
        Err(error) => {
            tracing::debug!("the own image is executed from the host's mount: {error}");
            Ok(file)
        }
    }
}

/// Whether this user can change anything about the file through its mount.
fn is_changeable(file: &OwnedFd) -> io::Result<bool> {
    if fstatvfs(file)?.flags().contains(FsFlags::ST_RDONLY) {
        return Ok(false);
    }
    let user = nix::unistd::geteuid();
    Ok(user.is_root()
        || nix::sys::stat::fstat(file)?.st_uid == user.as_raw()
        || nix::unistd::access(EXE, nix::unistd::AccessFlags::W_OK).is_ok())
}

/// A mount of `file` of its own, at no place, read-only: since Linux 5.12, and for who may mount here.
fn read_only(file: &OwnedFd) -> io::Result<OwnedFd> {
    const OPEN_TREE_CLONE: libc::c_uint = 1;
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC.cast_unsigned() | libc::AT_EMPTY_PATH.cast_unsigned();
    // SAFETY: the name is an empty string that outlives the call; everything else is an integer.
    let tree = unsafe { libc::syscall(libc::SYS_open_tree, file.as_raw_fd(), c"".as_ptr(), flags) };
    let tree = i32::try_from(tree).ok().filter(|tree| *tree >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the call just returned this descriptor, so it is open and ours alone.
    let tree = unsafe { OwnedFd::from_raw_fd(tree) };
    crate::sys::mounts::set_read_only(Some(tree.as_fd()), Path::new(""))?;
    Ok(tree)
}

/// A copy in memory that nobody can change, open by path only: a writer would keep it from being executed.
fn copy() -> io::Result<OwnedFd> {
    const MFD_EXEC: MFdFlags = MFdFlags::from_bits_retain(0x10);
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let source = File::open(EXE)?;
    // Known since Linux 6.3, where leaving it out may mean the opposite (`vm.memfd_noexec`).
    let made = memfd_create(c"sandbox-run", flags | MFD_EXEC).or_else(|_| memfd_create(c"sandbox-run", flags))?;
    let mut left = usize::try_from(source.metadata()?.size()).map_err(io::Error::other)?;
    while left > 0 {
        match nix::sys::sendfile::sendfile(&made, &source, None, left)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => left = left.saturating_sub(count),
        }
    }
    fcntl(&made, FcntlArg::F_ADD_SEALS(SEALS))?;
    let name = format!("/proc/self/fd/{}", made.as_raw_fd());
    // Asked here: who executes it can only fail.
    nix::unistd::access(name.as_str(), nix::unistd::AccessFlags::X_OK)?;
    Ok(at_path(&name)?)
}

/// By `open` itself: the library's options take this flag away where the C library counts it among the modes (musl).
fn at_path(name: &str) -> nix::Result<OwnedFd> {
    open(name, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn chmod(image: &OwnedFd) -> io::Result<()> {
        std::fs::set_permissions(format!("/proc/self/fd/{}", image.as_raw_fd()), std::fs::Permissions::from_mode(0o755))
    }

    #[test]
    fn a_copy_is_whole_constant_and_no_part_of_the_host() {
        let image = copy().unwrap();
        let name = format!("/proc/self/fd/{}", image.as_raw_fd());
        assert!(std::fs::read(&name).unwrap() == std::fs::read(EXE).unwrap());
        assert!(
            File::options()
                .write(true)
                .open(&name)
                .and_then(|file| nix::unistd::write(file, b"x").map_err(Into::into))
                .is_err()
        );
        assert_ne!(std::fs::metadata(&name).unwrap().dev(), std::fs::metadata(EXE).unwrap().dev());
    }

    #[test]
    fn a_mount_of_its_own_takes_no_change() {
        let file = at_path(EXE).unwrap();
        // Only root gets one, and not everywhere.
        let Ok(image) = read_only(&file) else { return };
        assert_eq!(chmod(&image).unwrap_err().raw_os_error(), Some(libc::EROFS));
        assert_eq!(nix::sys::stat::fstat(&image).unwrap().st_ino, nix::sys::stat::fstat(&file).unwrap().st_ino);
    }
}
