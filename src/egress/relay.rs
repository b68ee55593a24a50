//! Bytes between a loopback port inside and a Unix socket that leads outside.
//!
//! One thread for thousands of connections, so that the relay is one process among those of the target whatever it carries.
//! It reads nothing of what it carries and decides nothing. Descriptors that it has no number for wait in the kernel.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use super::flow::{BUFFER, Flow, Lost, Turn, keep_near};
use super::source::Source;

/// The longest path of a socket.
pub const PATH_MAX: usize = 107;

const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

/// How long to wait for whoever accepts outside, when its queue is full.
const FULL: Duration = Duration::from_millis(5);
/// And for how long in all.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait when there is no descriptor left.
const SHORT: Duration = Duration::from_millis(50);

struct Pair {
    inside: TcpStream,
    outside: UnixStream,
    to_outside: Flow,
    to_inside: Flow,
    /// Whether it is in the queue of those that have something to do.
    queued: bool,
}

struct Relay<'a> {
    source: &'a Source,
    address: UnixAddr,
    epoll: Epoll,
    pairs: Vec<Option<Pair>>,
    free: Vec<usize>,
    ready: VecDeque<usize>,
    /// Accepted, and not yet connected to the outside.
    waiting: VecDeque<(TcpStream, Instant)>,
    paused: bool,
    buffer: Vec<u8>,
}

/// Carries bytes until `stop` is readable or closed at its other end.
pub fn run(source: &Source, socket: &Path, stop: BorrowedFd) -> io::Result<()> {
    source.set_nonblocking()?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(source, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
    epoll.add(stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?;
    let mut relay = Relay {
        source,
        address: UnixAddr::new(socket)?,
        epoll,
        pairs: Vec::new(),
        free: Vec::new(),
        ready: VecDeque::new(),
        waiting: VecDeque::new(),
        paused: false,
        buffer: vec![0; BUFFER],
    };
    let mut events = vec![EpollEvent::empty(); 256];
    loop {
        let timeout = relay.timeout();
        let count = match relay.epoll.wait(&mut events, timeout) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        let mut knocked = false;
        for event in &events[..count] {
            match event.data() {
                STOP => return Ok(()),
                LISTENER => knocked = true,
                number => relay.enqueue(usize::try_from(number).unwrap_or(usize::MAX)),
            }
        }
        for _ in 0..relay.ready.len() {
            if let Some(number) = relay.ready.pop_front() {
                relay.turn(number);
            }
        }
        relay.connect_waiting();
        if knocked || relay.paused {
            relay.accept()?;
        }
    }
}

impl Relay<'_> {
    fn timeout(&self) -> EpollTimeout {
        let wait = if !self.ready.is_empty() {
            Duration::ZERO
        } else if !self.waiting.is_empty() {
            FULL
        } else if self.paused {
            SHORT
        } else {
            return EpollTimeout::NONE;
        };
        EpollTimeout::try_from(wait).unwrap_or(EpollTimeout::ZERO)
    }

    fn enqueue(&mut self, number: usize) {
        if let Some(Some(pair)) = self.pairs.get_mut(number)
            && !pair.queued
        {
            pair.queued = true;
            self.ready.push_back(number);
        }
    }

    /// Accepts as many as want, for as long as there are descriptors.
    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.source.accept() {
                Ok(inside) => {
                    self.pause(false)?;
                    self.waiting.push_back((inside, Instant::now()));
                    self.connect_waiting();
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::EAGAIN) => return self.pause(false),
                    Some(Errno::EINTR | Errno::ECONNABORTED) => {}
                    Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS) => return self.pause(true),
                    _ => return Err(error),
                },
            }
            if self.waiting.len() > 64 {
                // The outside has to catch up first.
                return self.pause(true);
            }
        }
    }

    /// Looks away from the listener for a while, or back at it: it would be ready all the time.
    fn pause(&mut self, on: bool) -> io::Result<()> {
        if on != self.paused {
            let interest = if on { EpollFlags::empty() } else { EpollFlags::EPOLLIN };
            self.epoll.modify(self.source, &mut EpollEvent::new(interest, LISTENER))?;
            self.paused = on;
        }
        Ok(())
    }

    fn connect_waiting(&mut self) {
        while let Some((inside, since)) = self.waiting.pop_front() {
            match self.outside() {
                Ok(outside) => {
                    // A connection that cannot be watched is closed.
                    let _watched = self.join(inside, outside);
                }
                Err(Errno::EAGAIN | Errno::EMFILE | Errno::ENFILE) if since.elapsed() < PATIENCE => {
                    self.waiting.push_front((inside, since));
                    return;
                }
                // Nobody there: whoever asked sees the connection end.
                Err(_) => {}
            }
        }
    }

    fn outside(&self) -> Result<UnixStream, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        connect(socket.as_raw_fd(), &self.address)?;
        Ok(socket.into())
    }

    fn join(&mut self, inside: TcpStream, outside: UnixStream) -> io::Result<()> {
        inside.set_nonblocking(true)?;
        inside.set_nodelay(true)?;
        keep_near(&inside);
        let number = self.free.pop().unwrap_or_else(|| {
            self.pairs.push(None);
            self.pairs.len() - 1
        });
        // Told of changes alone: what is ready stays known in `ready`.
        let changes = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        let watched = [inside.as_fd(), outside.as_fd()]
            .into_iter()
            .try_for_each(|end| self.epoll.add(end, EpollEvent::new(changes, number as u64)));
        if let Err(errno) = watched {
            self.free.push(number);
            return Err(errno.into());
        }
        self.pairs[number] = Some(Pair {
            inside,
            outside,
            to_outside: Flow::new(Vec::new()),
            to_inside: Flow::new(Vec::new()),
            queued: false,
        });
        self.enqueue(number);
        Ok(())
    }

    fn turn(&mut self, number: usize) {
        let Some(slot) = self.pairs.get_mut(number) else { return };
        let Some(pair) = slot else { return };
        pair.queued = false;
        let there = match pair.to_outside.turn(&pair.inside, &pair.outside, &mut self.buffer) {
            Ok(turn) => Some(turn),
            // An answer may be on its way, from somebody who wanted to hear no more.
            Err(Lost::Goal(_)) => {
                pair.to_outside.cut();
                Some(Turn::Over)
            }
            Err(Lost::Source(_)) => None,
        };
        let back = match pair.to_inside.turn(&pair.outside, &pair.inside, &mut self.buffer) {
            Ok(turn) => Some(turn),
            Err(Lost::Source(_)) => {
                pair.to_inside.end();
                Some(Turn::Again)
            }
            Err(Lost::Goal(_)) => None,
        };
        match (there, back) {
            (Some(Turn::Over), Some(Turn::Over)) | (None, _) | (_, None) => {
                *slot = None;
                self.free.push(number);
            }
            (Some(Turn::Again), _) | (_, Some(Turn::Again)) => self.enqueue(number),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
