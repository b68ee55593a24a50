//! A pair of sockets that keep records apart and say who sent them.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixCredentials, recvmsg,
    sendmsg, setsockopt, socketpair, sockopt::PassCred,
};

/// What came with a record, and how long it is; nothing at all at the end.
#[derive(Debug)]
pub struct Arrived {
    /// Bytes of the record.
    pub length: usize,
    /// The descriptor that came along.
    pub descriptor: Option<OwnedFd>,
    /// Number of the process that sent it, as the kernel knows it here.
    pub sender: i32,
}

/// What keeps a write to a socket that nobody reads from being a signal.
pub const NO_SIGNAL: MsgFlags = MsgFlags::MSG_NOSIGNAL;

/// Two ends, of which the first hears who speaks. Both close-on-exec.
pub fn pair() -> nix::Result<(OwnedFd, OwnedFd)> {
    let (hearing, other) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    setsockopt(&hearing, PassCred, &true)?;
    Ok((hearing, other))
}

/// Sends a record, with a descriptor where one goes along. Without `wait` it fails where there is no room.
pub fn send(end: BorrowedFd, record: &[u8], descriptor: Option<BorrowedFd>, wait: bool) -> io::Result<()> {
    let flags = if wait { MsgFlags::empty() } else { MsgFlags::MSG_DONTWAIT };
    let fds: Vec<_> = descriptor.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let rights = if fds.is_empty() { &[][..] } else { &rights[..] };
    sendmsg::<()>(end.as_raw_fd(), &[IoSlice::new(record)], rights, flags | NO_SIGNAL, None)?;
    Ok(())
}

/// Receives a record, at the first end.
pub fn receive(end: BorrowedFd, record: &mut [u8]) -> io::Result<Arrived> {
    let mut space = nix::cmsg_space!([std::os::fd::RawFd; 1], UnixCredentials);
    let mut arrived = Arrived { length: 0, descriptor: None, sender: 0 };
    let mut parts = [IoSliceMut::new(record)];
    let received = match recvmsg::<()>(end.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
        Ok(received) => received,
        // Said once, when the other end closed with a record unread, and before what it sent last.
        Err(Errno::ECONNRESET) => return receive(end, record),
        Err(errno) => return Err(errno.into()),
    };
    for message in received.cmsgs().into_iter().flatten() {
        match message {
            ControlMessageOwned::ScmRights(fds) => {
                arrived.descriptor = fds.into_iter().next().and_then(crate::sys::fd::adopt);
            }
            ControlMessageOwned::ScmCredentials(credentials) => arrived.sender = credentials.pid(),
            _ => {}
        }
    }
    arrived.length = received.bytes;
    Ok(arrived)
}

/// Receives a record, at the other end. Nothing is the end.
pub fn receive_plain(end: BorrowedFd, record: &mut [u8]) -> io::Result<usize> {
    match nix::unistd::read(end, record) {
        Err(Errno::ECONNRESET) => Ok(0),
        done => Ok(done?),
    }
}
