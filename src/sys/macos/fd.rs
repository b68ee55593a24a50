//! Descriptors: files that nobody can change, close-on-exec, placement.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::stat::{FileStat, SFlag, fstat};

use crate::sys::fd::{close, set_cloexec};

/// Where the descriptors of this process have names.
pub const NAMES: &str = "/dev/fd";

/// The path of a descriptor: opening it duplicates it.
#[must_use]
pub fn name(number: RawFd) -> String {
    format!("{NAMES}/{number}")
}

/// Marks a descriptor of ours close-on-exec.
pub(super) fn set_private(file: impl AsFd) -> nix::Result<()> {
    fcntl(file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map(drop)
}

/// A file with `bytes` that has no name and that `sealed` is open on for reading only: nobody can open it for writing any more.
pub fn sealed(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let (mut file, sealed) = nameless(name)?;
    file.write_all(bytes)?;
    Ok(sealed.into())
}

/// An empty file without a name, open for reading and writing, close-on-exec.
pub fn scratch(name: &CStr) -> io::Result<File> {
    Ok(nameless(name)?.0)
}

/// A new file open for both, and for reading only. Its name is gone at once.
fn nameless(name: &CStr) -> io::Result<(File, File)> {
    let mut random = [0_u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let path = format!("/private/tmp/.sandbox-run-{}-{:032x}", name.to_string_lossy(), u128::from_ne_bytes(random));
    let both = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    let reading = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(&path);
    std::fs::remove_file(&path)?;
    let reading = reading?;
    // Nobody else may write there, but root and we; all the same it has to be one file.
    if identity(&fstat(&both)?) == identity(&fstat(&reading)?) {
        Ok((both, reading))
    } else {
        Err(Errno::ESTALE.into())
    }
}

/// Whether `fd` is open for reading only, on a file of ours that has no name.
#[must_use]
pub fn is_sealed(fd: BorrowedFd) -> bool {
    let access = fcntl(fd, FcntlArg::F_GETFL).map(|flags| OFlag::from_bits_truncate(flags) & OFlag::O_ACCMODE);
    access == Ok(OFlag::O_RDONLY)
        && fstat(fd).is_ok_and(|found| {
            let regular = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
            regular && found.st_nlink == 0 && found.st_uid == nix::unistd::geteuid().as_raw()
        })
}

/// Marks every descriptor above 2 close-on-exec.
///
/// Marked and not closed: others in this process may still use them (a descriptor that must report an exec failure).
pub fn cloexec_all() -> io::Result<()> {
    for number in open_numbers()?.into_iter().filter(|number| *number > 2) {
        set_cloexec(number, true).or_else(|error| match error.raw_os_error() {
            Some(libc::EBADF) => Ok(()),
            _ => Err(error),
        })?;
    }
    Ok(())
}

/// Closes all descriptors from one to another.
pub(in crate::sys) fn close_between(from: u32, last: u32) -> io::Result<()> {
    let within = |number: &RawFd| u32::try_from(*number).is_ok_and(|number| (from..=last).contains(&number));
    open_numbers()?.into_iter().filter(within).for_each(close);
    Ok(())
}

/// All that are open, with one that is closed by now: that of the list itself.
fn open_numbers() -> io::Result<Vec<RawFd>> {
    let names = std::fs::read_dir(NAMES)?.map(|entry| Ok(entry?.file_name()));
    let names: Vec<_> = names.collect::<io::Result<_>>()?;
    Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
}

/// Whether `number` could be opened anew for writing: its name is a duplicate of it, no more.
#[must_use]
pub fn could_be_written_anew(_: RawFd) -> bool {
    false
}

/// The address family of a socket.
pub(in crate::sys) fn family(socket: BorrowedFd) -> Option<libc::c_int> {
    use nix::sys::socket::{SockaddrLike, SockaddrStorage, getsockname};
    let address = getsockname::<SockaddrStorage>(socket.as_raw_fd()).ok()?;
    address.family().map(|family| family as libc::c_int)
}

/// A pipe: the end to read, the end to write. Both close-on-exec.
pub fn pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    // Nothing is executed meanwhile: this program has one thread.
    let (reading, writing) = nix::unistd::pipe()?;
    set_private(&reading)?;
    set_private(&writing)?;
    Ok((reading, writing))
}

/// Takes room on the disk for the first `size` bytes of a file.
pub fn reserve(file: &File, size: i64) -> nix::Result<()> {
    let mut room = libc::fstore_t {
        fst_flags: libc::F_ALLOCATEALL,
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: size,
        fst_bytesalloc: 0,
    };
    // SAFETY: `room` is valid for reads and writes.
    Errno::result(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PREALLOCATE, &raw mut room) }).map(drop)
}

/// Device and inode.
#[must_use]
pub fn identity(found: &FileStat) -> (u64, u64) {
    // As the standard library widens it.
    (i64::from(found.st_dev).cast_unsigned(), found.st_ino)
}

/// A terminal opened anew for writing, in a mode of its own. Of other devices there is only a duplicate.
pub fn anew(device: &File, flags: libc::c_int) -> io::Result<File> {
    File::options().write(true).custom_flags(flags).open(nix::unistd::ttyname(device)?)
}

/// Whether the kernel moves what is in one pipe to another.
pub const SPLICES: bool = false;

/// Refused: see [`SPLICES`].
pub fn splice(_: impl AsFd, _: impl AsFd, _: usize) -> nix::Result<usize> {
    Err(Errno::ENOTSUP)
}
