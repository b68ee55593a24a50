//! One direction of a connection: bytes from one socket to another, as fast as the slower of the two takes them.
//!
//! Both sockets are non-blocking. At most one buffer is under way: then nothing more is read. The end of the one is made known to
//! the other, and the opposite direction goes on. Bytes are copied: `benches/README.md` has what splicing would bring.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, send, setsockopt, shutdown, sockopt};
use nix::unistd::read;

use crate::sys::channel::NO_SIGNAL;

/// How much is read at once; one buffer serves all flows of a thread.
pub const BUFFER: usize = 128 * 1024;

/// How much a socket of this host may hold. Left to itself the kernel lets it grow to megabytes, and then each byte has left the
/// caches of the processor before anybody reads it.
const NEAR: usize = 256 * 1024;

/// How much one flow moves before others have their turn.
const TURN: usize = 1024 * 1024;

/// One direction.
#[derive(Debug)]
pub struct Flow {
    rest: Vec<u8>,
    done: usize,
    ended: bool,
    shut: bool,
    moved: u64,
}

/// Which of the two sockets failed.
#[derive(Debug)]
pub enum Lost {
    /// The one that is read.
    Source(io::Error),
    /// The one that is written.
    Goal(io::Error),
}

fn source(errno: Errno) -> Lost {
    Lost::Source(errno.into())
}

fn goal(errno: Errno) -> Lost {
    Lost::Goal(errno.into())
}

/// What became of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing more can be done before one of the sockets is ready.
    Waits,
    /// There may be more to do at once.
    Again,
    /// The end of the one has been made known to the other.
    Over,
}

impl Flow {
    /// A direction in which `first` goes ahead of everything that is read.
    #[must_use]
    pub fn new(first: Vec<u8>) -> Self {
        let moved = first.len() as u64;
        Self { rest: first, done: 0, ended: false, shut: false, moved }
    }

    /// Bytes that were taken so far.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shut
    }

    /// Whether it waits for the source.
    #[must_use]
    pub fn wants_to_read(&self) -> bool {
        !self.ended && !self.holds()
    }

    /// Whether it waits for the goal.
    #[must_use]
    pub fn wants_to_write(&self) -> bool {
        self.holds()
    }

    fn holds(&self) -> bool {
        self.done < self.rest.len()
    }

    /// Ends it where it is: nothing more is moved, and nobody is told.
    pub fn cut(&mut self) {
        (self.ended, self.shut) = (true, true);
        (self.rest, self.done) = (Vec::new(), 0);
    }

    /// Takes the source for ended; what is held is still delivered.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Moves what can be moved, with `buffer` for the time in between.
    pub fn turn(&mut self, source: impl AsFd, goal: impl AsFd, buffer: &mut [u8]) -> Result<Turn, Lost> {
        let (from, to) = (source.as_fd(), goal.as_fd());
        if self.shut {
            return Ok(Turn::Over);
        }
        let begun = self.moved;
        while self.moved - begun < TURN as u64 {
            if !self.deliver(to)? {
                return Ok(Turn::Waits);
            }
            if self.ended {
                self.shut = true;
                // It may have gone already, and that is an end as well.
                let _told = shutdown(to.as_raw_fd(), Shutdown::Write);
                return Ok(Turn::Over);
            }
            if !self.fetch(from, to, buffer)? {
                return Ok(Turn::Waits);
            }
        }
        Ok(Turn::Again)
    }

    /// The same where something may be ready for it.
    pub fn turn_if(&mut self, due: bool, source: impl AsFd, goal: impl AsFd, buffer: &mut [u8]) -> Result<Turn, Lost> {
        if due || self.shut { self.turn(source, goal, buffer) } else { Ok(Turn::Waits) }
    }

    /// Writes what is held; whether nothing is left.
    fn deliver(&mut self, to: BorrowedFd) -> Result<bool, Lost> {
        while self.done < self.rest.len() {
            match write(to, &self.rest[self.done..])? {
                Some(count) => self.done += count,
                None => return Ok(false),
            }
        }
        if self.done > 0 {
            // Memory is for those who need it now.
            (self.rest, self.done) = (Vec::new(), 0);
        }
        Ok(true)
    }

    /// Reads once, and writes as much of it as goes; whether there was anything, the end included.
    fn fetch(&mut self, from: BorrowedFd, to: BorrowedFd, buffer: &mut [u8]) -> Result<bool, Lost> {
        let count = match read(from, buffer) {
            Ok(count) => count,
            Err(Errno::EINTR) => return Ok(true),
            Err(Errno::EAGAIN) => return Ok(false),
            Err(errno) => return Err(source(errno)),
        };
        self.ended = count == 0;
        self.moved += count as u64;
        let mut sent = 0;
        while sent < count {
            match write(to, &buffer[sent..count])? {
                Some(part) => sent += part,
                None => break,
            }
        }
        self.rest.extend_from_slice(&buffer[sent..count]);
        Ok(true)
    }
}

/// Keeps little under way in a connection within this host, where distance is no reason for more.
pub fn keep_near(stream: &TcpStream) {
    if stream.peer_addr().is_ok_and(|there| there.ip().to_canonical().is_loopback()) {
        // Slower without, and nothing else.
        let _limited =
            setsockopt(stream, sockopt::RcvBuf, &NEAR).and_then(|()| setsockopt(stream, sockopt::SndBuf, &NEAR));
    }
}

/// Writes once; `None` when there is no room.
fn write(to: BorrowedFd, bytes: &[u8]) -> Result<Option<usize>, Lost> {
    match send(to.as_raw_fd(), bytes, NO_SIGNAL | MsgFlags::MSG_DONTWAIT) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::EINTR) => Ok(Some(0)),
        Err(Errno::EAGAIN) => Ok(None),
        Err(errno) => Err(goal(errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use nix::sys::socket::getsockopt;

    use super::*;

    #[test]
    fn a_socket_of_this_host_holds_little() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let held = || (getsockopt(&stream, sockopt::RcvBuf).unwrap(), getsockopt(&stream, sockopt::SndBuf).unwrap());
        let before = held();
        keep_near(&stream);
        // The kernel takes twice of what is asked for, for its own needs, and has a most.
        assert!(held().0 <= 2 * NEAR && held().1 <= 2 * NEAR, "{before:?}, {:?}", held());
        assert!(held() != before || before.0 <= 2 * NEAR && before.1 <= 2 * NEAR, "{before:?}");
        drop(listener);
    }
}
