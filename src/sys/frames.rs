//! Records on a stream of sockets: each has its length and the number of its sender before it.
//!
//! Both are the sender's word, which is a process of our own: nobody else gets an end. For systems whose local sockets do not
//! keep records apart; tested on all.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

use super::fd::{adopt, set_cloexec};

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

/// What stands before a record: its length, the number of its sender.
const HEAD: usize = 8;

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
                arrived.descriptor = fds.into_iter().next().and_then(adopt);
            }
        }
        match received.bytes {
            0 if read == 0 => return Ok(arrived),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => read += bytes,
        }
    }
    if let Some(descriptor) = &arrived.descriptor {
        set_cloexec(descriptor.as_raw_fd(), true)?;
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC).unwrap()
    }

    #[test]
    fn records_stay_apart_and_name_their_sender() {
        let (one, other) = pair();
        for record in [&b"first!"[..], b"", b"a longer one than the first"] {
            send(other.as_fd(), record, None, true).unwrap();
        }
        drop(other);
        let mut room = [0; 64];
        for record in [&b"first!"[..], b"", b"a longer one than the first"] {
            let Arrived { length, descriptor, sender } = receive(one.as_fd(), &mut room).unwrap();
            assert_eq!((&room[..length], sender), (record, nix::unistd::getpid().as_raw()));
            assert!(descriptor.is_none());
        }
        let end = receive(one.as_fd(), &mut room).unwrap();
        assert_eq!((end.length, end.sender), (0, 0));
    }

    #[test]
    fn a_descriptor_comes_with_its_record_and_crosses_no_exec() {
        let (one, other) = pair();
        let (reading, writing) = crate::sys::fd::pipe().unwrap();
        send(other.as_fd(), b"before", None, true).unwrap();
        send(other.as_fd(), b"with", Some(writing.as_fd()), true).unwrap();
        drop(writing);
        let mut room = [0; 8];
        assert!(receive(one.as_fd(), &mut room).unwrap().descriptor.is_none());
        let given = receive(one.as_fd(), &mut room).unwrap().descriptor.unwrap();
        let flags = nix::fcntl::fcntl(&given, nix::fcntl::FcntlArg::F_GETFD).unwrap();
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        File::from(given).write_all(b"through").unwrap();
        let mut text = String::new();
        File::from(reading).read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn what_is_no_record_is_an_error_and_a_full_socket_does_not_hold_anybody() {
        let (one, other) = pair();
        let mut room = [0; 4];
        send(other.as_fd(), b"too long", None, true).unwrap();
        assert_eq!(receive(one.as_fd(), &mut room).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let (one, other) = pair();
        nix::unistd::write(&other, &[4, 0, 0]).unwrap();
        drop(other);
        assert_eq!(receive(one.as_fd(), &mut room).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let (one, other) = pair();
        let mut sent = 0_u32;
        let full = loop {
            match send(other.as_fd(), &sent.to_ne_bytes(), None, false) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        drop(other);
        for number in 0..sent {
            assert_eq!(receive_plain(one.as_fd(), &mut room).unwrap(), 4);
            assert_eq!(u32::from_ne_bytes(room), number);
        }
        assert_eq!(receive_plain(one.as_fd(), &mut room).unwrap(), 0);
    }
}
