//! Where connections of the target come from: a port that is listened on, or somebody who has made them.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::sys;

/// One of the two. Never waits.
#[derive(Debug)]
pub enum Source {
    /// A port.
    Port(TcpListener),
    /// The hearing end of a channel by which they come one by one.
    Handed(OwnedFd),
}

impl Source {
    /// Keeps [`Self::accept`] from waiting.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Port(listener) => listener.set_nonblocking(true),
            Self::Handed(channel) => set_nonblocking(channel),
        }
    }

    /// The next one.
    pub fn accept(&self) -> io::Result<TcpStream> {
        match self {
            Self::Port(listener) => Ok(listener.accept()?.0),
            Self::Handed(channel) => handed(channel),
        }
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Port(listener) => listener.as_fd(),
            Self::Handed(channel) => channel.as_fd(),
        }
    }
}

/// Keeps [`handed`] from waiting.
pub fn set_nonblocking(channel: &OwnedFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(channel, FcntlArg::F_GETFL)?);
    fcntl(channel, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// The next connection of a channel; the end of the channel is an error of that kind.
pub fn handed(channel: &OwnedFd) -> io::Result<TcpStream> {
    let arrived = sys::channel::receive(channel.as_fd(), &mut [0])?;
    match arrived.descriptor {
        Some(stream) => Ok(stream.into()),
        // Sent, and no number was free for it: then it is closed.
        None if arrived.length > 0 => Err(io::ErrorKind::ConnectionAborted.into()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
