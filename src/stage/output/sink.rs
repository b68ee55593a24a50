//! Where a stream leads: what it is, and writing to it without waiting.
//!
//! Knows neither limits nor counts of the output as a whole; a file's greatest size is its own.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::termios::tcgetsid;
use nix::unistd::getsid;

use crate::sys;

/// The longest that one write to a device may take.
const WAIT: Duration = Duration::from_millis(20);

/// Where a stream leads.
#[derive(Debug)]
pub(super) enum Sink {
    /// Moved by the kernel without waiting, whatever mode the pipe is in for others.
    Pipe(File),
    Socket(File),
    /// A file, which has always room, or a device in a mode of its own. A file has a greatest size.
    Other(File, Option<u64>),
    /// A device or pipe that would make us wait.
    Waiting(File),
    /// Kept in memory.
    Kept,
    /// Closed.
    Gone,
}

impl Sink {
    pub(super) fn of(stream: OwnedFd, largest: Option<u64>) -> io::Result<Self> {
        let file = File::from(stream);
        let kind = file.metadata()?.file_type();
        if kind.is_fifo() {
            return Ok(if sys::fd::SPLICES { Self::Pipe(file) } else { Self::Waiting(file) });
        }
        if kind.is_socket() {
            return Ok(Self::Socket(file));
        }
        if kind.is_char_device() {
            // The mode belongs to everybody who has this terminal open; opened anew it is ours alone.
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
            let open = |path: &str| File::options().write(true).custom_flags(flags).open(path);
            let again = sys::fd::anew(&file, flags);
            // A terminal that was handed to us by somebody else cannot be opened by its name, but by this one.
            let own = || tcgetsid(&file).is_ok_and(|session| Ok(session) == getsid(None));
            return Ok(match again {
                Ok(again) => Self::Other(again, None),
                Err(_) if own() => open("/dev/tty").map_or(Self::Waiting(file), |again| Self::Other(again, None)),
                Err(_) => Self::Waiting(file),
            });
        }
        Ok(Self::Other(file, largest.filter(|_| kind.is_file())))
    }

    pub(super) fn file(&self) -> Option<&File> {
        match self {
            Self::Pipe(file) | Self::Socket(file) | Self::Other(file, _) | Self::Waiting(file) => Some(file),
            Self::Kept | Self::Gone => None,
        }
    }

    /// Nothing to do for now, or an error when nobody is there any more to pass anything on to.
    pub(super) fn is_wanted(&self) -> io::Result<bool> {
        let gone = PollFlags::POLLERR | PollFlags::POLLHUP;
        match self.file() {
            Some(file) if events(file.as_fd(), PollFlags::empty()).intersects(gone) => {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            _ => Ok(false),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket(file) => Ok(send(file.as_raw_fd(), bytes, sys::channel::NO_SIGNAL | MsgFlags::MSG_DONTWAIT)?),
            Self::Other(file, Some(largest)) => {
                let at = if is_appended(file) { file.metadata()?.len() } else { file.stream_position()? };
                let room = usize::try_from(largest.saturating_sub(at)).unwrap_or(usize::MAX);
                if room == 0 {
                    return Err(io::Error::from_raw_os_error(libc::EFBIG));
                }
                file.write(&bytes[..bytes.len().min(room)])
            }
            Self::Waiting(file) => {
                if events(file.as_fd(), PollFlags::POLLOUT).is_empty() {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                let written = sys::signals::bounded(WAIT, || file.write(&bytes[..bytes.len().min(512)]));
                written.map_err(|error| match error.kind() {
                    io::ErrorKind::Interrupted => io::ErrorKind::WouldBlock.into(),
                    _ => error,
                })
            }
            Self::Pipe(file) | Self::Other(file, None) => file.write(bytes),
            Self::Kept | Self::Gone => Ok(bytes.len()),
        }
    }
}

pub(super) fn is_appended(file: &File) -> bool {
    let flags = nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_GETFL);
    flags.is_ok_and(|flags| OFlag::from_bits_truncate(flags).contains(OFlag::O_APPEND))
}

pub(super) fn events(fd: BorrowedFd, wanted: PollFlags) -> PollFlags {
    let mut polled = [PollFd::new(fd, wanted)];
    match poll(&mut polled, PollTimeout::ZERO) {
        Ok(_) => polled[0].revents().unwrap_or(PollFlags::empty()),
        Err(_) => PollFlags::empty(),
    }
}

/// Whether there is something to read, or the end.
pub(super) fn is_readable(fd: BorrowedFd) -> bool {
    !events(fd, PollFlags::POLLIN).is_empty()
}
