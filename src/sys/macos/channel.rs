//! A pair of sockets that keep records apart and say who sent them.
//!
//! A stream: each record has its length and the number of its sender before it. Both are the sender's word, which is our own
//! process: nobody else gets an end.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg, socketpair,
};

/// What came with a record, and how long it is; nothing at all at the end.
#[derive(Debug)]
pub struct Arrived {
    /// Bytes of the record.
    pub length: usize,
    /// The descriptor that came along.
    pub descriptor: Option<OwnedFd>,
    /// Number of the process that sent it.
    pub sender: i32,
}

/// A write to a socket that nobody reads is a signal, which this program has blocked.
pub const NO_SIGNAL: MsgFlags = MsgFlags::empty();

/// What stands before a record: its length, the number of its sender.
const HEAD: usize = 8;

/// Two ends, of which the first hears who speaks. Both close-on-exec.
pub fn pair() -> nix::Result<(OwnedFd, OwnedFd)> {
    let (hearing, other) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::empty())?;
    for end in [&hearing, &other] {
        super::fd::set_private(end)?;
        let yes: libc::c_int = 1;
        let size = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or_default();
        let value = (&raw const yes).cast();
        // SAFETY: the value has the size that is told.
        let set = unsafe { libc::setsockopt(end.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NOSIGPIPE, value, size) };
        Errno::result(set)?;
    }
    Ok((hearing, other))
}

/// Sends a record, with a descriptor where one goes along. Without `wait` it fails where there is no room.
pub fn send(end: BorrowedFd, record: &[u8], descriptor: Option<BorrowedFd>, wait: bool) -> io::Result<()> {
    let flags = if wait { MsgFlags::empty() } else { MsgFlags::MSG_DONTWAIT };
    let fds: Vec<_> = descriptor.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let rights = if fds.is_empty() { &[][..] } else { &rights[..] };
    let length = u32::try_from(record.len()).map_err(io::Error::other)?;
    let whole = [&length.to_ne_bytes(), &nix::unistd::getpid().as_raw().to_ne_bytes(), record].concat();
    // So short a record is written whole or not at all: a socket takes nothing before it has room for far more.
    let sent = sendmsg::<()>(end.as_raw_fd(), &[IoSlice::new(&whole)], rights, flags, None)?;
    if sent == whole.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives a record, at the first end.
pub fn receive(end: BorrowedFd, record: &mut [u8]) -> io::Result<Arrived> {
    let mut arrived = Arrived { length: 0, descriptor: None, sender: 0 };
    let mut head = [0; HEAD];
    let mut read = 0;
    while read < HEAD {
        let mut space = nix::cmsg_space!([std::os::fd::RawFd; 1]);
        let mut parts = [IoSliceMut::new(&mut head[read..])];
        let received = match recvmsg::<()>(end.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::empty()) {
            Err(Errno::EINTR) => continue,
            // Closed with a record unread.
            Err(Errno::ECONNRESET) => return Ok(arrived),
            received => received?,
        };
        for message in received.cmsgs().into_iter().flatten() {
            if let ControlMessageOwned::ScmRights(fds) = message {
                arrived.descriptor = fds.into_iter().next().and_then(crate::sys::fd::adopt);
            }
        }
        match received.bytes {
            0 if read == 0 => return Ok(arrived),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => read += bytes,
        }
    }
    if let Some(descriptor) = &arrived.descriptor {
        super::fd::set_private(descriptor)?;
    }
    let [l0, l1, l2, l3, s0, s1, s2, s3] = head;
    arrived.sender = i32::from_ne_bytes([s0, s1, s2, s3]);
    let length = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).map_err(io::Error::other)?;
    let room = record.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?;
    read_whole(end, room)?;
    arrived.length = length;
    Ok(arrived)
}

/// Receives a record, at the other end. Nothing is the end.
pub fn receive_plain(end: BorrowedFd, record: &mut [u8]) -> io::Result<usize> {
    Ok(receive(end, record)?.length)
}

fn read_whole(end: BorrowedFd, mut room: &mut [u8]) -> io::Result<()> {
    while !room.is_empty() {
        match nix::unistd::read(end, room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => room = &mut room[bytes..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
