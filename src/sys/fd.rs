//! Descriptors: sealed memory files, close-on-exec, placement.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

pub use super::system::fd::{
    NAMES, SPLICES, anew, cloexec_all, could_be_written_anew, identity, is_sealed, name, pipe, reserve, scratch,
    sealed, splice,
};
use super::system::fd::{close_between, family};

/// The whole content of a memory file, from its beginning, with the offset left alone.
pub fn read_whole(fd: BorrowedFd) -> io::Result<Vec<u8>> {
    let mut file = File::from(fd.try_clone_to_owned()?);
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether descriptor `number` is open.
#[must_use]
pub fn is_open(number: RawFd) -> bool {
    // SAFETY: F_GETFD takes no pointer and changes nothing.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}

/// Sets or clears close-on-exec on `number`.
pub fn set_cloexec(number: RawFd, on: bool) -> io::Result<()> {
    let flags = if on { FdFlag::FD_CLOEXEC } else { FdFlag::empty() };
    // SAFETY: the borrow does not outlive this call, and a closed number only gives EBADF.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl(fd, FcntlArg::F_SETFD(flags))?;
    Ok(())
}

/// Looks at a descriptor that may be ours, without taking it; `None` when it is closed or a standard stream.
#[must_use]
pub fn lend(number: RawFd) -> Option<BorrowedFd<'static>> {
    if number <= 2 || !is_open(number) {
        return None;
    }
    // SAFETY: open just now, and this program closes nothing that it was started with before it looked at it.
    Some(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Looks at a descriptor that the target is given, a standard stream or one that is kept; `None` when it is closed.
#[must_use]
pub fn given(number: RawFd) -> Option<BorrowedFd<'static>> {
    if !is_open(number) {
        return None;
    }
    // SAFETY: open just now; the caller is a process that closes nothing between here and exec.
    Some(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Takes over a descriptor that the caller of this process left open for us; `None` when it is closed or a standard stream.
#[must_use]
pub fn adopt(number: RawFd) -> Option<OwnedFd> {
    if number <= 2 || !is_open(number) {
        return None;
    }
    // SAFETY: the number is open, above the standard streams, and named to us by the hand-off, so nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A duplicate of standard stream `number`, or of another that the caller left open, above 2 and close-on-exec; `None` when
/// it is closed.
pub fn duplicate_stream(number: RawFd) -> io::Result<Option<OwnedFd>> {
    // SAFETY: F_DUPFD_CLOEXEC takes integers; the result is checked before use.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy == -1 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::EBADF) { Ok(None) } else { Err(error) };
    }
    // SAFETY: fcntl just returned this descriptor, so it is open and ours alone.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(copy) }))
}

/// A duplicate of `file` under the first free number from `least` on, close-on-exec.
pub fn duplicate_above(file: impl AsFd, least: RawFd) -> io::Result<OwnedFd> {
    let copy = fcntl(file, FcntlArg::F_DUPFD_CLOEXEC(least))?;
    // SAFETY: fcntl just returned this descriptor, so it is open and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Makes `number` refer to what `source` refers to, without close-on-exec.
pub fn place(source: impl AsFd, number: RawFd) -> io::Result<()> {
    let source = source.as_fd().as_raw_fd();
    if source == number {
        return set_cloexec(number, false);
    }
    // SAFETY: dup2 takes two integers. The caller names standard streams or numbers it owns as the goal.
    if unsafe { libc::dup2(source, number) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Closes `number`; an already closed one is fine.
pub fn close(number: RawFd) {
    // SAFETY: called for standard streams only, which no owned type in this program holds.
    unsafe { libc::close(number) };
}

/// Points each of `streams` to nothing, so that this process keeps none of them open.
pub fn silence(streams: &[RawFd]) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for stream in streams {
        place(&null, *stream)?;
    }
    Ok(())
}

/// Closes every descriptor above 2 but those in `keep`. For a copy of this process that goes on without what it owns.
pub fn close_others(keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<u32> = keep.iter().filter_map(|number| u32::try_from(*number).ok()).collect();
    keep.sort_unstable();
    let mut from = 3;
    for number in keep.into_iter().filter(|number| *number > 2).chain([u32::MAX]) {
        if from < number {
            let last = if number == u32::MAX { u32::MAX } else { number - 1 };
            close_between(from, last)?;
        }
        from = number.saturating_add(1);
    }
    Ok(())
}

/// Opens `/dev/null` on each standard stream that is closed, so that no other file ends up there by accident.
pub fn fill_streams() -> io::Result<()> {
    let closed: Vec<RawFd> = (0..3).filter(|stream| !is_open(*stream)).collect();
    if closed.is_empty() { Ok(()) } else { silence(&closed) }
}

/// The file `path`, opened as `stream` was; `None` when that cannot be.
#[must_use]
pub fn reopen(stream: impl AsFd, path: &std::path::Path) -> Option<OwnedFd> {
    use nix::fcntl::OFlag;
    let kept = OFlag::O_ACCMODE | OFlag::O_APPEND | OFlag::O_NONBLOCK;
    let flags = OFlag::from_bits_truncate(fcntl(stream, FcntlArg::F_GETFL).ok()?) & kept;
    nix::fcntl::open(path, flags | OFlag::O_CLOEXEC | OFlag::O_NOCTTY, nix::sys::stat::Mode::empty()).ok()
}

/// A descriptor that was opened for writing, or a directory, unless it is a pipe or a socket: those have no place in a tree.
#[must_use]
pub fn writable(number: RawFd) -> Option<BorrowedFd<'static>> {
    use nix::fcntl::OFlag;
    use nix::sys::stat::{SFlag, fstat};
    if !is_open(number) {
        return None;
    }
    // SAFETY: open just now; the caller is a process that closes nothing between here and exec.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let kind = SFlag::from_bits_truncate(fstat(fd).ok()?.st_mode) & SFlag::S_IFMT;
    let access = OFlag::from_bits_truncate(fcntl(fd, FcntlArg::F_GETFL).ok()?) & OFlag::O_ACCMODE;
    let for_writing = access != OFlag::O_RDONLY && (kind == SFlag::S_IFREG || kind == SFlag::S_IFCHR);
    (for_writing || kind == SFlag::S_IFDIR).then_some(fd)
}

/// Whether `number` is open on a directory, which leads wherever `..` leads.
#[must_use]
pub fn is_directory(number: RawFd) -> bool {
    use nix::sys::stat::{SFlag, fstat};
    if !is_open(number) {
        return false;
    }
    // SAFETY: open just now, and this program has one thread.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    fstat(fd).is_ok_and(|found| SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR)
}

/// What kind of socket a descriptor is, as far as it matters where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// IPv4 or IPv6: of the network namespace in which it was made.
    Internet,
    /// A Unix stream with somebody at the other end.
    Connected,
    /// Any other Unix socket: it can be sent from or connected to whoever has a name.
    Open,
    /// Of another family.
    Other,
}

/// The kind of socket that `number` is, if it is one.
#[must_use]
pub fn socket(number: RawFd) -> Option<Socket> {
    use nix::sys::socket::{SockType, SockaddrStorage, getpeername, getsockopt, sockopt};
    if !is_open(number) {
        return None;
    }
    // SAFETY: open just now, and this program has one thread.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    // Whatever is no socket has no type.
    let kind = getsockopt(&fd, sockopt::SockType).ok()?;
    Some(match family(fd) {
        Some(libc::AF_INET | libc::AF_INET6) => Socket::Internet,
        Some(libc::AF_UNIX) => {
            let connected = getpeername::<SockaddrStorage>(number).is_ok();
            if connected && kind != SockType::Datagram { Socket::Connected } else { Socket::Open }
        }
        Some(_) | None => Socket::Other,
    })
}

/// How many bytes can be read from a pipe right now.
pub fn unread(pipe: BorrowedFd) -> io::Result<u64> {
    let mut count: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int, for which `count` is valid.
    if unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(count).unwrap_or(0))
}
