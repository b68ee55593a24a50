//! Descriptors: sealed memory files, close-on-exec, placement.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, SealFlag, SpliceFFlags, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::{FileStat, SFlag, fstat};

use crate::sys::fd::{close, is_open, set_cloexec};

/// Where the descriptors of this process have names.
pub const NAMES: &str = "/proc/self/fd";

/// The path of a descriptor: opening it opens the file anew.
#[must_use]
pub fn name(number: RawFd) -> String {
    format!("{NAMES}/{number}")
}

/// All seals that make a memory file constant.
pub(super) const SEALS: SealFlag =
    SealFlag::F_SEAL_WRITE.union(SealFlag::F_SEAL_GROW).union(SealFlag::F_SEAL_SHRINK).union(SealFlag::F_SEAL_SEAL);

/// A memory file with `bytes` that nobody can change any more, at offset 0, close-on-exec.
pub fn sealed(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(0))?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS))?;
    Ok(file.into())
}

/// An empty memory file open for reading and writing, close-on-exec.
pub fn scratch(name: &CStr) -> io::Result<File> {
    Ok(File::from(memfd_create(name, MFdFlags::MFD_CLOEXEC)?))
}

/// Whether `fd` is a memory file whose content can never change.
#[must_use]
pub fn is_sealed(fd: BorrowedFd) -> bool {
    fcntl(fd, FcntlArg::F_GET_SEALS).is_ok_and(|bits| SealFlag::from_bits_truncate(bits).contains(SEALS))
}

/// Marks every descriptor above 2 close-on-exec.
///
/// Marked and not closed: others in this process may still use them (a descriptor that must report an exec failure).
pub fn cloexec_all() -> io::Result<()> {
    const CLOEXEC: libc::c_int = 1 << 2;
    // SAFETY: close_range takes three integers; with CLOSE_RANGE_CLOEXEC it only sets a flag on open descriptors.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, CLOEXEC) } == 0;
    if done {
        return Ok(());
    }
    // Before 5.11 the flag is unknown, and some filters refuse the call: walk the list instead.
    for entry in std::fs::read_dir(NAMES)? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|text| text.parse::<RawFd>().ok()) else { continue };
        if number > 2 {
            set_cloexec(number, true).or_else(|error| match error.raw_os_error() {
                Some(libc::EBADF) => Ok(()),
                _ => Err(error),
            })?;
        }
    }
    Ok(())
}

/// Closes all descriptors from one to another.
pub(in crate::sys) fn close_between(from: u32, last: u32) -> io::Result<()> {
    // SAFETY: takes three integers. The caller gives up everything that it owns in this range and never touches it again.
    if unsafe { libc::syscall(libc::SYS_close_range, from, last, 0) } == 0 {
        return Ok(());
    }
    // Before 5.9 there is no such call.
    for entry in std::fs::read_dir(NAMES)? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|text| text.parse::<u32>().ok()) else { continue };
        if (from..=last).contains(&number) {
            close(number.cast_signed());
        }
    }
    Ok(())
}

/// Whether `number` is a file or disk open for reading only that this user could open for writing.
#[must_use]
pub fn could_be_written_anew(number: RawFd) -> bool {
    if !is_open(number) {
        return false;
    }
    // SAFETY: open just now, and this program has one thread.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let kind = fstat(fd).map(|found| SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT);
    let access = fcntl(fd, FcntlArg::F_GETFL).map(|flags| OFlag::from_bits_truncate(flags) & OFlag::O_ACCMODE);
    let path = name(number);
    matches!(kind, Ok(SFlag::S_IFREG | SFlag::S_IFBLK))
        && access == Ok(OFlag::O_RDONLY)
        && nix::unistd::access(path.as_str(), nix::unistd::AccessFlags::W_OK).is_ok()
}

/// The address family of a socket.
pub(in crate::sys) fn family(socket: BorrowedFd) -> Option<libc::c_int> {
    let mut family: libc::c_int = 0;
    let mut size = libc::socklen_t::try_from(size_of::<libc::c_int>()).ok()?;
    let (number, value) = (socket.as_raw_fd(), (&raw mut family).cast());
    // SAFETY: the kernel writes at most `size` bytes to `family`, which has as many.
    let answer = unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_DOMAIN, value, &raw mut size) };
    (answer == 0).then_some(family)
}

/// A pipe: the end to read, the end to write. Both close-on-exec.
pub fn pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    nix::unistd::pipe2(OFlag::O_CLOEXEC)
}

/// Whether the kernel moves what is in one pipe to another.
pub const SPLICES: bool = true;

/// Moves up to `most` bytes from one pipe to another without waiting, whatever mode they are in for others.
pub fn splice(from: impl AsFd, to: impl AsFd, most: usize) -> nix::Result<usize> {
    let how = SpliceFFlags::SPLICE_F_NONBLOCK | SpliceFFlags::SPLICE_F_MOVE;
    nix::fcntl::splice(from, None, to, None, most, how)
}

/// Takes room on the disk for the first `size` bytes of a file.
pub fn reserve(file: &File, size: i64) -> nix::Result<()> {
    fallocate(file, FallocateFlags::empty(), 0, size)
}

/// Device and inode.
#[must_use]
pub fn identity(found: &FileStat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

/// A terminal or other device opened anew for writing, in a mode of its own.
pub fn anew(device: &File, flags: libc::c_int) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().write(true).custom_flags(flags).open(name(device.as_raw_fd()))
}
