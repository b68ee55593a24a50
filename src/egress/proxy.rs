//! The filtering proxy: accepts connections of the target and serves each on a thread of its own.
//!
//! It is the only part outside that reads what a target wrote, so it is started as a process of its own. It knows nothing of
//! that process: whoever starts it hands over the listener and a descriptor that ends it.

mod conversation;
mod exchange;
mod inspection;
mod refused;
mod through;
mod tunnel;
mod wire;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::PollFlags;

pub use inspection::Inspection;

use super::address::Resolve;
use super::log::NetLog;
use super::rules::Rules;
use super::source;
use super::token::Token;
use super::upstream::Url;
use conversation::Conversation;
use wire::{Clock, Socket};

/// How long and how many.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a head, or for whatever else comes before anything is passed on.
    pub opening: Duration,
    /// For a connection to a server.
    pub connect: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// For a connection in all.
    pub total: Option<Duration>,
    /// Connections at once; more wait until others end.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            opening: Duration::from_secs(10),
            connect: Duration::from_secs(30),
            // Long polls are silent for minutes.
            idle: Duration::from_mins(15),
            total: None,
            connections: 1024,
        }
    }
}

/// A proxy, before it is given a listener.
pub struct Proxy {
    /// Which requests may leave.
    pub rules: Rules,
    /// How long and how many.
    pub limits: Limits,
    /// Who resolves names.
    pub resolver: Box<dyn Resolve>,
    /// What is told about requests.
    pub log: NetLog,
    /// Who looks into TLS, if anybody does.
    pub inspection: Option<Inspection>,
    /// The proxy that is asked for connections.
    pub upstream: Option<Url>,
    /// What a client has to say first.
    pub token: Option<Token>,
    /// Ports at which nothing but TLS and HTTP passes.
    pub web: Vec<u16>,
    /// Where it listens itself, as far as that could be asked for.
    pub own: Vec<SocketAddr>,
    /// Readable, or closed at its other end, when the run is over.
    pub stop: OwnedFd,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("rules", &self.rules).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Where a proxy listens.
#[derive(Debug)]
pub enum Listener {
    /// A socket file, in a directory that is the run's own.
    Unix(UnixListener),
    /// A port, where there is no network namespace.
    Tcp(TcpListener),
    /// A channel by which connections come one by one, from whoever has made them.
    Handed(OwnedFd),
}

impl Listener {
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(listener) => listener.set_nonblocking(true),
            Self::Tcp(listener) => listener.set_nonblocking(true),
            Self::Handed(channel) => source::set_nonblocking(channel),
        }
    }

    fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Unix(listener) => Socket::from_unix(listener.accept()?.0),
            Self::Tcp(listener) => Socket::from_tcp(listener.accept()?.0),
            Self::Handed(channel) => Socket::from_tcp(source::handed(channel)?),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
            Self::Handed(channel) => channel.as_fd(),
        }
    }
}

/// How many connections there are, and who waits for their number to fall.
#[derive(Debug, Default)]
struct Count {
    open: Mutex<usize>,
    fell: Condvar,
}

/// One of them.
struct Place(Arc<Count>);

impl Count {
    fn place(self: &Arc<Self>) -> Place {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Place(Arc::clone(self))
    }

    /// Waits until there are fewer than `most`, but not for long.
    fn fewer_than(&self, most: usize, time: Duration) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.fell.wait_timeout_while(open, time, |open| *open >= most);
        *waited.unwrap_or_else(PoisonError::into_inner).0 < most
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.open.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.fell.notify_all();
    }
}

/// A connection needs little of it; names are resolved on it as well.
const STACK: usize = 512 * 1024;

/// How long connections may take to end with the run.
const FAREWELL: Duration = Duration::from_millis(500);

/// Serves until the run is over.
pub fn serve(proxy: &Arc<Proxy>, listener: &Listener) -> io::Result<()> {
    listener.set_nonblocking()?;
    let count = Arc::new(Count::default());
    let clock = Clock::new(proxy.stop.as_fd());
    loop {
        match clock.wait(&[(listener.as_fd(), PollFlags::POLLIN)], None) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => break,
            Err(error) => return Err(error),
        }
        if !count.fewer_than(proxy.limits.connections, Duration::from_millis(100)) {
            continue;
        }
        let socket = match listener.accept() {
            Ok(socket) => socket,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                // Mostly for want of numbers.
                count.fewer_than(0, Duration::from_millis(20));
                continue;
            }
            Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS) => {
                    count.fewer_than(0, Duration::from_millis(20));
                    continue;
                }
                Some(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => continue,
                _ => return Err(error),
            },
        };
        let (place, proxy) = (count.place(), Arc::clone(proxy));
        // Without a thread the connection is closed, and its place is free again.
        let _started = thread::Builder::new().stack_size(STACK).spawn(move || {
            Conversation::new(&proxy, socket).hold();
            drop(place);
        });
    }
    count.fewer_than(1, FAREWELL);
    Ok(())
}

/// The point in time after which nothing more is waited for.
fn until(begun: Instant, step: Duration, total: Option<Duration>) -> Instant {
    let end = Instant::now() + step;
    total.map_or(end, |total| end.min(begun + total))
}

#[cfg(test)]
mod tests;
