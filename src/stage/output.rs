//! Output that goes through us: counted, cut at its limit, kept or passed on.
//!
//! Never waits: whoever reads what we pass on may be slow, and signals and the clock must not wait for that. Memory is
//! bounded by one buffer for each stream, or by the size of what is to be kept.

mod kept;
mod relay;

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{OFlag, SpliceFFlags, splice};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::SockType as SockTypeOption;
use nix::sys::socket::{MsgFlags, SockType, getsockopt, send};
use nix::sys::termios::tcgetsid;
use nix::unistd::getsid;

use kept::Kept;

use super::account::Written;
use crate::plan::Plan;
use crate::policy::limits::OutputOverflow;

/// How much is kept when nobody said how much: 10 MiB.
const DEFAULT_KEPT: u64 = 10 << 20;

/// The most that is read at once.
const CHUNK: usize = 64 << 10;

/// The most that is moved for one stream before the others, signals and clocks have their turn.
const TURN: u32 = 32;

/// The longest that one write to a device may take.
const WAIT: Duration = Duration::from_millis(20);

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

/// Where a stream leads.
#[derive(Debug)]
enum Sink {
    /// Moved by the kernel without waiting, whatever mode the pipe is in for others.
    Pipe(File),
    Socket(File),
    /// A file, which has always room, or a device in a mode of its own. A file has a greatest size.
    Other(File, Option<u64>),
    /// A device that would make us wait.
    Waiting(File),
    /// Kept in memory.
    Kept,
    /// Closed.
    Gone,
}

impl Output {
    /// Puts pipes into the target's `streams` where something is to be done with what comes through; `None` if nothing is.
    pub fn install(plan: &Plan, wish: Wish, streams: &mut [Option<OwnedFd>; 3]) -> io::Result<Option<Self>> {
        let limit = plan.limits.max_output;
        let needed = limit.is_some() || wish.capture;
        if !needed && !wish.count {
            return Ok(None);
        }
        let [_, stdout, stderr] = streams;
        let same = match (&stdout, &stderr) {
            (Some(stdout), Some(stderr)) => !wish.capture && same_file(stdout, stderr)?,
            _ => false,
        };
        // Two pipes would lose the order, and one the counts.
        if same && !needed {
            return Ok(None);
        }
        let mut output = Self {
            streams: Vec::new(),
            measured: Vec::new(),
            limit: if wish.capture { None } else { limit },
            kill: plan.limits.overflow == OutputOverflow::Kill,
            passed: 0,
            over: false,
            lost: false,
            largest: plan.limits.max_file_size,
            too_large: false,
            kept: wish.capture.then(|| Kept::new(limit.unwrap_or(DEFAULT_KEPT))),
            buffer: vec![0; CHUNK],
            merged: same,
            relayed: !needed,
        };
        if let Some(stream) = stdout {
            output.redirect(0, stream, needed, wish.capture)?;
        }
        match (stdout, stderr) {
            (Some(stdout), Some(stderr)) if same => *stderr = stdout.try_clone()?,
            (_, Some(stream)) => output.redirect(1, stream, needed, wish.capture)?,
            (_, None) => {}
        }
        Ok(Some(output))
    }

    fn redirect(&mut self, index: usize, stream: &mut OwnedFd, needed: bool, capture: bool) -> io::Result<()> {
        if !needed {
            let mut file = File::from(stream.try_clone()?);
            let kind = file.metadata()?.file_type();
            if kind.is_file() {
                // Others may append as well, and then nothing tells whose bytes they were.
                if !is_appended(&file) {
                    let start = file.stream_position()?;
                    self.measured.push(Measured { index, file, start, end: None });
                }
                return Ok(());
            }
            // Of a socket that keeps messages apart we would make one that does not.
            let socket = || getsockopt(&file, SockTypeOption).is_ok_and(|kind| kind == SockType::Stream);
            let stream_like = kind.is_fifo() || kind.is_socket() && socket();
            if !stream_like {
                return Ok(());
            }
        }
        let (ours, theirs) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let flags = OFlag::from_bits_truncate(nix::fcntl::fcntl(&ours, nix::fcntl::FcntlArg::F_GETFL)?);
        // Only our end: the target's has another open file behind it.
        nix::fcntl::fcntl(&ours, nix::fcntl::FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        let stream = std::mem::replace(stream, theirs);
        let sink = if capture { Sink::Kept } else { Sink::of(stream, self.largest)? };
        let source = Some(File::from(ours));
        self.streams.push(Stream {
            index,
            source,
            sink,
            written: 0,
            in_time: None,
            last: false,
            pending: Vec::new(),
            waits: false,
        });
        Ok(())
    }

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
            let how = SpliceFFlags::SPLICE_F_NONBLOCK | SpliceFFlags::SPLICE_F_MOVE;
            return match splice(&*source, None, sink, None, most, how) {
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

    /// The run is over, and somebody may still hold the other end, whom nobody waits for: what he writes from now on does not
    /// count.
    pub fn end_run(&mut self) {
        for stream in &mut self.streams {
            let unread = stream.source.as_ref().and_then(|source| crate::sys::fd::unread(source.as_fd()).ok());
            stream.in_time = Some(stream.written + unread.unwrap_or(0));
        }
        for measured in &mut self.measured {
            measured.end = measured.file.stream_position().ok();
        }
    }

    /// Nobody inside is left: what there is to read now is the last. Somebody outside may hold the other end, which the target
    /// can have given to him, and is not waited for.
    pub fn end_writers(&mut self) {
        self.end_run();
        for stream in &mut self.streams {
            stream.last = true;
        }
    }

    /// Whether there is nothing left to pass on. `alive` says that somebody may still hold the other end, whom nobody waits
    /// for: then only what is there already counts.
    #[must_use]
    pub fn is_done(&self, alive: bool) -> bool {
        if alive && self.relayed {
            let late = |stream: &Stream| stream.in_time.is_some_and(|in_time| stream.written >= in_time);
            // Where somebody outlives the run, whoever reads may take the time it takes: a process of its own waits for both.
            let left = |source: &File| !events(source.as_fd(), PollFlags::POLLIN).contains(PollFlags::POLLHUP);
            return self.streams.iter().all(|stream| match &stream.source {
                Some(source) if stream.waits => left(source),
                source => stream.pending.is_empty() && (source.is_none() || late(stream)),
            });
        }
        let waiting = self.streams.iter().any(|stream| stream.waits || !stream.pending.is_empty());
        let open = self.streams.iter().any(|stream| stream.source.is_some());
        !waiting && (!open || alive && !self.is_readable())
    }

    /// Nobody reads, and there is no more time: counts what is there, says so, and lets go of it.
    pub fn abandon(&mut self) {
        // More than a pipe holds: a writer that is still there must not keep us.
        const MOST: usize = 1 << 20;
        let mut lost = 0;
        for stream in &mut self.streams {
            lost += stream.pending.len();
            let Some(source) = &mut stream.source else { continue };
            let mut read_so_far = 0;
            let bound = |written: u64| match stream.in_time.filter(|_| stream.last) {
                Some(in_time) => usize::try_from(in_time.saturating_sub(written)).unwrap_or(usize::MAX).min(CHUNK),
                None => CHUNK,
            };
            while let Ok(read @ 1..) = source.read(&mut self.buffer[..bound(stream.written)]) {
                stream.written += read as u64;
                lost += read;
                read_so_far += read;
                if read_so_far >= MOST {
                    break;
                }
            }
            stream.pending.clear();
            stream.end();
        }
        if lost > 0 {
            self.lost = true;
            tracing::warn!("output is cut: {lost} bytes were not read by anybody in time");
        }
    }

    fn is_readable(&self) -> bool {
        self.streams.iter().filter_map(|stream| stream.source.as_ref()).any(|source| is_readable(source.as_fd()))
    }

    /// What came through. Says once, after the data, that some is missing.
    #[must_use]
    pub fn finish(self) -> Written {
        let counted = |index| {
            let passed = self.streams.iter().find(|stream| stream.index == index);
            let passed = passed.map(|stream| stream.in_time.unwrap_or(stream.written));
            let measured = self.measured.iter().find(|measured| measured.index == index);
            passed.or_else(|| {
                let Measured { file, start, end, .. } = measured?;
                end.or((&*file).stream_position().ok()).map(|end| end.saturating_sub(*start))
            })
        };
        let limit = self.kept.as_ref().map(|kept| kept.most).or(self.limit);
        if let Some(limit) = limit.filter(|_| self.over && !self.kill) {
            let what = if self.kept.is_some() { "kept" } else { "passed on" };
            tracing::warn!("output is cut: {limit} bytes are {what} (--max-output)");
        }
        Written {
            stdout: counted(0),
            stderr: if self.merged { None } else { counted(1) },
            truncated: self.over || self.lost,
            over: self.over,
            too_large: self.too_large,
            captured: self.kept.map(|kept| kept.bytes),
        }
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

impl Sink {
    fn of(stream: OwnedFd, largest: Option<u64>) -> io::Result<Self> {
        let file = File::from(stream);
        let kind = file.metadata()?.file_type();
        if kind.is_fifo() {
            return Ok(Self::Pipe(file));
        }
        if kind.is_socket() {
            return Ok(Self::Socket(file));
        }
        if kind.is_char_device() {
            // The mode belongs to everybody who has this terminal open; opened anew it is ours alone.
            let number = file.as_raw_fd();
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
            let open = |path: &str| File::options().write(true).custom_flags(flags).open(path);
            let again = open(&format!("/proc/self/fd/{number}"));
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

    fn file(&self) -> Option<&File> {
        match self {
            Self::Pipe(file) | Self::Socket(file) | Self::Other(file, _) | Self::Waiting(file) => Some(file),
            Self::Kept | Self::Gone => None,
        }
    }

    /// Nothing to do for now, or an error when nobody is there any more to pass anything on to.
    fn is_wanted(&self) -> io::Result<bool> {
        let gone = PollFlags::POLLERR | PollFlags::POLLHUP;
        match self.file() {
            Some(file) if events(file.as_fd(), PollFlags::empty()).intersects(gone) => {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            _ => Ok(false),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket(file) => Ok(send(file.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL)?),
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
                let written = crate::sys::signals::bounded(WAIT, || file.write(&bytes[..bytes.len().min(512)]));
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

fn same_file(a: &OwnedFd, b: &OwnedFd) -> io::Result<bool> {
    let [a, b] = [File::from(a.try_clone()?).metadata()?, File::from(b.try_clone()?).metadata()?];
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
}

fn is_appended(file: &File) -> bool {
    let flags = nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_GETFL);
    flags.is_ok_and(|flags| OFlag::from_bits_truncate(flags).contains(OFlag::O_APPEND))
}

fn events(fd: BorrowedFd, wanted: PollFlags) -> PollFlags {
    let mut polled = [PollFd::new(fd, wanted)];
    match poll(&mut polled, PollTimeout::ZERO) {
        Ok(_) => polled[0].revents().unwrap_or(PollFlags::empty()),
        Err(_) => PollFlags::empty(),
    }
}

/// Whether there is something to read, or the end.
fn is_readable(fd: BorrowedFd) -> bool {
    !events(fd, PollFlags::POLLIN).is_empty()
}
