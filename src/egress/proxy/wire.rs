//! Sockets that are waited for with an end in time, and with the end of the run.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, Shutdown, send, shutdown};

use super::super::flow::keep_near;
use crate::sys::channel::NO_SIGNAL;

/// Something that bytes are read from and written to without waiting, and a descriptor to wait for.
pub(super) trait Wire: Read + Write {
    /// What becomes ready.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Tells the other side that nothing more comes.
    fn finish(&mut self);

    /// Whether bytes that were taken still have to be pushed out.
    fn pending(&self) -> bool {
        false
    }

    /// Pushes them as far as that goes without waiting.
    fn push(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connected, non-blocking socket of any kind.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

impl Socket {
    /// The same socket once more.
    #[cfg(feature = "intercept")]
    pub(super) fn again(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    pub(super) fn from_unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self(stream.into()))
    }

    pub(super) fn from_tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        keep_near(&stream);
        Ok(Self(stream.into()))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(nix::unistd::read(&self.0, buffer)?)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0.as_raw_fd(), bytes, NO_SIGNAL | MsgFlags::MSG_DONTWAIT)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire for Socket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn finish(&mut self) {
        // It may have gone already.
        let _told = shutdown(self.0.as_raw_fd(), Shutdown::Write);
    }
}

/// What has to be waited for, with what is still to be pushed out.
pub(super) fn interest(wire: &impl Wire, mut flags: PollFlags) -> PollFlags {
    flags.set(PollFlags::POLLOUT, flags.contains(PollFlags::POLLOUT) || wire.pending());
    flags
}

/// Waits for descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock<'a> {
    stop: BorrowedFd<'a>,
}

impl<'a> Clock<'a> {
    pub(super) fn new(stop: BorrowedFd<'a>) -> Self {
        Self { stop }
    }

    /// A descriptor to wait for when there is nothing to wait for.
    pub(super) fn nothing(self) -> BorrowedFd<'a> {
        self.stop
    }

    /// What `wanted` descriptors are ready for; `TimedOut` after `end`, `ConnectionAborted` when the run is over.
    pub(super) fn wait<const N: usize>(
        self,
        wanted: &[(BorrowedFd, PollFlags); N],
        end: Option<Instant>,
    ) -> io::Result<[PollFlags; N]> {
        let mut polled: Vec<PollFd> = wanted.iter().map(|(fd, flags)| PollFd::new(*fd, *flags)).collect();
        polled.push(PollFd::new(self.stop, PollFlags::POLLIN));
        loop {
            let timeout = match end {
                Some(end) => match end.saturating_duration_since(Instant::now()) {
                    // Whoever only looks must not wait: that millisecond would be what a busy connection is made of.
                    Duration::ZERO => PollTimeout::ZERO,
                    // A millisecond more, so that the end has come when the time is over.
                    left => PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX),
                },
                None => PollTimeout::NONE,
            };
            match poll(&mut polled, timeout) {
                Ok(0) | Err(Errno::EINTR) => {
                    if end.is_some_and(|end| Instant::now() >= end) {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Ok(_) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        let answer = |polled: &PollFd| polled.revents().unwrap_or(PollFlags::empty());
        if polled.last().is_some_and(|stop| !answer(stop).is_empty()) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(std::array::from_fn(|index| answer(&polled[index])))
    }

    /// Reads into the end of `bytes`, once, as soon as something is there; 0 is the end of what comes.
    pub(super) fn read_some(self, wire: &mut impl Wire, bytes: &mut Vec<u8>, end: Instant) -> io::Result<usize> {
        let mut buffer = [0; 8 * 1024];
        loop {
            match wire.read(&mut buffer) {
                Ok(count) => {
                    bytes.extend_from_slice(&buffer[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(&[(wire.fd(), interest(wire, PollFlags::POLLIN))], Some(end))?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes everything.
    pub(super) fn write_all(self, wire: &mut impl Wire, mut bytes: &[u8], end: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match wire.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(&[(wire.fd(), PollFlags::POLLOUT)], Some(end))?;
                }
                Err(error) => return Err(error),
            }
        }
        while wire.pending() {
            match wire.push() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(&[(wire.fd(), PollFlags::POLLOUT)], Some(end))?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends a connection so that the other side gets what was written: closing with unread bytes would discard it.
    pub(super) fn linger(self, mut wire: impl Wire) {
        wire.finish();
        let end = Instant::now() + Duration::from_secs(1);
        let mut rest = Vec::new();
        while rest.len() < 256 * 1024 && matches!(self.read_some(&mut wire, &mut rest, end), Ok(1..)) {}
    }
}
