//! Output that goes through us: counted, cut at its limit, kept or passed on.
//!
//! Never waits: whoever reads what we pass on may be slow, and signals and the clock must not wait for that. Memory is
//! bounded by one buffer for each stream, or by the size of what is to be kept.

mod ending;
mod install;
mod kept;
mod relay;
mod sink;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};

use kept::Kept;
use sink::{Sink, is_readable};

use crate::sys;

/// The most that is read at once.
const CHUNK: usize = 64 << 10;

/// The most that is moved for one stream before the others, signals and clocks have their turn.
const TURN: u32 = 32;

/// How long to wait for a slow reader, or for a writer that we cannot end, once the run is over.
pub const PATIENCE: Duration = Duration::from_millis(200);

/// What is asked of output besides its limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// Keep it instead of passing it on.
    pub capture: bool,
    /// Count it where that changes nothing for the target: a terminal and devices stay its own.
    pub count: bool,
}

/// Standard output and standard error of one run.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct Output {
    streams: Vec<Stream>,
    /// Files that stay the target's own and are only counted.
    measured: Vec<Measured>,
    limit: Option<u64>,
    kill: bool,
    /// Bytes passed on.
    passed: u64,
    /// Whether more was written than may be passed on or kept.
    over: bool,
    /// Whether something could not be passed on.
    lost: bool,
    /// The greatest size of a file: what we write for the target is bounded as what it writes itself.
    largest: Option<u64>,
    too_large: bool,
    kept: Option<Kept>,
    buffer: Vec<u8>,
    /// Set when both streams are one.
    merged: bool,
    /// Whether nobody asked for more than the counts, and no writer shall see that there are any.
    relayed: bool,
}

/// A regular file: how far its position moves is what was written, and a full disk stays the target's affair.
#[derive(Debug)]
struct Measured {
    index: usize,
    file: File,
    start: u64,
    end: Option<u64>,
}

#[derive(Debug)]
struct Stream {
    /// 0 for standard output, 1 for standard error.
    index: usize,
    /// Our end of the target's pipe, until its other end is closed or nobody reads what we pass on.
    source: Option<File>,
    sink: Sink,
    /// Bytes that the target wrote.
    written: u64,
    /// The same at the end of the run, when others may write on.
    in_time: Option<u64>,
    /// Whether nobody inside is left: whoever still holds the other end has nothing to add.
    last: bool,
    /// Read and not yet passed on.
    pending: Vec<u8>,
    /// Whether the sink has no room.
    waits: bool,
}

impl Output {
    /// Descriptors that a copy of this process must let go of: with them nobody would see the end of a stream.
    #[must_use]
    pub fn descriptors(&self) -> Vec<RawFd> {
        let measured = self.measured.iter().map(|measured| Some(measured.file.as_raw_fd()));
        self.piped().into_iter().map(Some).chain(measured).flatten().collect()
    }

    /// Both ends of what comes through.
    fn piped(&self) -> Vec<RawFd> {
        let ends = self.streams.iter().flat_map(|stream| {
            [stream.source.as_ref().map(AsRawFd::as_raw_fd), stream.sink.file().map(AsRawFd::as_raw_fd)]
        });
        ends.flatten().collect()
    }

    /// What to wait for.
    #[must_use]
    pub fn interests(&self) -> Vec<PollFd<'_>> {
        let mut interests = Vec::new();
        for stream in &self.streams {
            match (&stream.source, stream.sink.file()) {
                (_, Some(sink)) if stream.waits => interests.push(PollFd::new(sink.as_fd(), PollFlags::POLLOUT)),
                (Some(source), sink) => {
                    interests.push(PollFd::new(source.as_fd(), PollFlags::POLLIN));
                    // Only to hear that nobody reads any more.
                    interests.extend(sink.map(|sink| PollFd::new(sink.as_fd(), PollFlags::empty())));
                }
                (None, _) => {}
            }
        }
        interests
    }

    /// Moves what can be moved now.
    pub fn pump(&mut self) {
        for index in 0..self.streams.len() {
            for _ in 0..TURN {
                match self.step(index) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        self.give_up(index, &error);
                        break;
                    }
                }
            }
        }
    }

    /// One movement; `false` when there is nothing to do for now.
    fn step(&mut self, index: usize) -> io::Result<bool> {
        let Some(stream) = self.streams.get_mut(index) else { return Ok(false) };
        if !stream.pending.is_empty() {
            return stream.flush();
        }
        let left = stream.left();
        if left == 0 {
            return Ok(stream.end());
        }
        let room = self.limit.map_or(u64::MAX, |limit| limit - self.passed);
        let Some(source) = &mut stream.source else { return Ok(false) };
        if let Sink::Pipe(sink) = &stream.sink
            && room > 0
        {
            let most = usize::try_from(room.min(left)).unwrap_or(usize::MAX).min(1 << 20);
            return match sys::fd::splice(&*source, sink, most) {
                Ok(0) => Ok(stream.end()),
                Ok(moved) => {
                    stream.waits = false;
                    stream.written += moved as u64;
                    self.passed += moved as u64;
                    Ok(true)
                }
                Err(Errno::EAGAIN) => {
                    stream.waits = is_readable(source.as_fd());
                    if stream.last && !stream.waits { Ok(stream.end()) } else { stream.sink.is_wanted() }
                }
                Err(Errno::EINTR) => Ok(true),
                Err(errno) => Err(errno.into()),
            };
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
        let read = match source.read(&mut self.buffer[..most]) {
            Ok(read) => read,
            // Somebody outside has read it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && stream.last => return Ok(stream.end()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return stream.sink.is_wanted(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        if read == 0 {
            return Ok(stream.end());
        }
        stream.written += read as u64;
        stream.waits = false;
        let bytes = &self.buffer[..read];
        if let Some(kept) = &mut self.kept {
            self.over |= kept.push(stream.index, bytes);
            return Ok(true);
        }
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(read);
        self.over |= fits < read;
        self.passed += fits as u64;
        stream.pending.extend_from_slice(&bytes[..fits]);
        stream.flush()
    }

    /// Nobody takes what a stream brings: the target shall see that as it would without us.
    fn give_up(&mut self, index: usize, error: &io::Error) {
        let Some(stream) = self.streams.get_mut(index) else { return };
        if error.raw_os_error() != Some(libc::EPIPE) && error.kind() != io::ErrorKind::BrokenPipe {
            let name = ["standard output", "standard error"][stream.index.min(1)];
            tracing::warn!("cannot pass {name} on: {}", crate::sys::process::describe(error));
        }
        self.too_large |= self.largest.is_some() && error.raw_os_error() == Some(libc::EFBIG);
        // A reader that has left wants no more; anything else is a loss.
        self.lost |= error.raw_os_error() != Some(libc::EPIPE) && error.kind() != io::ErrorKind::BrokenPipe;
        stream.pending.clear();
        stream.end();
    }

    /// Whether more was written than may be, and that is to end the run.
    #[must_use]
    pub fn ends_the_run(&self) -> bool {
        self.over && self.kill
    }
}

impl Stream {
    /// How much may still be moved.
    fn left(&self) -> u64 {
        self.in_time.filter(|_| self.last).map_or(u64::MAX, |in_time| in_time.saturating_sub(self.written))
    }

    /// Nothing more will come: whoever reads what we pass on shall see that now. Returns that there is nothing to do.
    fn end(&mut self) -> bool {
        self.source = None;
        self.waits = false;
        self.sink = Sink::Gone;
        false
    }

    /// Writes what was read; `false` when the sink has no room for all of it.
    fn flush(&mut self) -> io::Result<bool> {
        while !self.pending.is_empty() {
            match self.sink.write(&self.pending) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.pending.drain(..written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.waits = true;
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.waits = false;
        Ok(true)
    }
}
