//! The one connection that a target without a network of its own may make: the filter hands each `connect` to the inner stage, which
//! connects the socket itself, by an address of its own, with a listener of its own, and hands the other end to whoever serves.
//!
//! What the target's memory says is compared and never used: it could be something else by the time it counts. The port is a word
//! between the target and us, which whoever listens there on the host does not hear. Nobody else is served: a connection that was
//! not made here ends unheard.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{
    AddressFamily, Backlog, SockType, SockaddrIn, SockaddrIn6, SockaddrStorage, connect, getpeername, getsockname,
    getsockopt, listen, sockopt,
};

use super::super::way_out::{self, Wanted};
use crate::sys;
use crate::sys::notify::{self, Answer, Call, Listener, Memory};

/// How long a connection may take that never leaves this host.
const PATIENCE: Duration = Duration::from_secs(30);

/// As many may be in the making at once, and as many may wait for whoever serves.
const MOST: usize = 1024;

/// The connection to the way out, and those in the making.
#[derive(Debug)]
pub struct Switch {
    listener: TcpListener,
    /// Where that really listens.
    real: SocketAddrV4,
    /// The port that the target knows.
    port: u16,
    /// To whoever serves.
    channel: OwnedFd,
    making: Vec<Making>,
    /// Made, and not yet handed over.
    made: VecDeque<TcpStream>,
    /// Whether none can be taken in at the moment.
    short: bool,
}

/// A connection of which one end is on its way.
#[derive(Debug)]
struct Making {
    /// The target's own, so that nobody else gets its port meanwhile.
    socket: OwnedFd,
    family: AddressFamily,
    /// Where it comes from.
    from: SocketAddr,
    /// Who waits for it.
    call: Option<Call>,
    since: Instant,
}

impl Switch {
    /// Whether descriptors of other processes can be had at all: a filter around this process may not let it.
    pub fn probe() -> io::Result<()> {
        let any = io::pipe()?.0;
        notify::descriptor(std::process::id(), any.as_raw_fd()).map(drop)
    }

    /// Before there is a target: listens, and tells whoever serves that connections come one by one.
    pub fn open(wanted: &Wanted) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listen(&listener, way_out::QUEUE)?;
        listener.set_nonblocking(true)?;
        let SocketAddr::V4(real) = listener.local_addr()? else { return Err(io::ErrorKind::Unsupported.into()) };
        let port = wanted.port().ok_or(io::ErrorKind::Unsupported)?;
        let channel = way_out::hand(wanted)?;
        let (making, made) = (Vec::new(), VecDeque::new());
        Ok(Self { listener, real, port, channel, making, made, short: false })
    }

    /// The other end serves.
    #[must_use]
    pub fn channel(&self) -> &OwnedFd {
        &self.channel
    }

    /// Where connections come in, as long as there is room for them.
    #[must_use]
    pub fn waiting(&self) -> Option<BorrowedFd<'_>> {
        (!self.short && self.made.len() < MOST).then(|| self.listener.as_fd())
    }

    /// Where connections go that whoever serves had no room for.
    #[must_use]
    pub fn full(&self) -> Option<BorrowedFd<'_>> {
        (!self.made.is_empty()).then(|| self.channel.as_fd())
    }

    /// Whether somebody waits who must not wait for ever.
    #[must_use]
    pub fn hurries(&self) -> bool {
        self.short || !self.making.is_empty()
    }

    /// What becomes of a call about a socket; `None` when that is told later.
    pub fn decide(&mut self, asks: &Listener, call: &Call) -> Option<Answer> {
        self.serve(asks, call).unwrap_or_else(|errno| Some(Answer::Refused(errno)))
    }

    fn serve(&mut self, asks: &Listener, call: &Call) -> Result<Option<Answer>, i32> {
        let [number, address, length, ..] = call.arguments;
        let number = notify::low(number);
        let memory = Memory::of(call.thread).map_err(|_| libc::EACCES)?;
        let socket = notify::descriptor(call.thread, number).map_err(|error| match error.raw_os_error() {
            Some(libc::EBADF) => libc::EBADF,
            _ => libc::EACCES,
        })?;
        let family = getsockname::<SockaddrStorage>(socket.as_raw_fd()).map_err(|errno| errno as i32)?;
        let family = nix::sys::socket::SockaddrLike::family(&family);
        // Until here the number could have become another thread's.
        let wanted = (call.number == libc::SYS_connect).then(|| read(&memory, address, length));
        if !asks.waits(call) {
            return Err(libc::ENOSYS);
        }
        match (family, wanted) {
            // Landlock judges by the file. Should the number be another socket's by then, it is one of TCP, of which Landlock
            // lets none be connected.
            (Some(AddressFamily::Unix), Some(_)) => Ok(Some(Answer::GoOn)),
            (Some(AddressFamily::Unix), None) => {
                let most = Backlog::new(notify::low(address).clamp(0, 4096)).map_err(|errno| errno as i32)?;
                listen(&socket, most).map_err(|errno| errno as i32)?;
                Ok(Some(Answer::Done))
            }
            (Some(family @ (AddressFamily::Inet | AddressFamily::Inet6)), Some(wanted)) => {
                let (of, wanted) = wanted?;
                if of != family {
                    return Err(libc::EAFNOSUPPORT);
                }
                let stream = getsockopt(&socket, sockopt::SockType) == Ok(SockType::Stream);
                if !stream || wanted != SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port) {
                    return Err(libc::EACCES);
                }
                self.connect(asks, call, socket, family)
            }
            // Nobody outside is to connect to the target.
            _ => Err(libc::EACCES),
        }
    }

    /// Connects the target's socket with the listener here.
    fn connect(
        &mut self,
        asks: &Listener,
        call: &Call,
        socket: OwnedFd,
        family: AddressFamily,
    ) -> Result<Option<Answer>, i32> {
        if getpeername::<SockaddrStorage>(socket.as_raw_fd()).is_ok() {
            // Nothing but the end of a connection that was made: the kernel knows what is to be said.
            return self.begin(&socket, family).map(|()| Some(Answer::Done)).map_err(|errno| errno as i32);
        }
        if self.making.len() >= MOST {
            return Err(libc::EAGAIN);
        }
        // Nobody here waits for anything; whether the target wants to is a property of the socket, which it gets back.
        let flags = fcntl(&socket, FcntlArg::F_GETFL).map(OFlag::from_bits_retain).map_err(|errno| errno as i32)?;
        let waits = !flags.contains(OFlag::O_NONBLOCK);
        let set = |flags| fcntl(&socket, FcntlArg::F_SETFL(flags)).map_err(|errno| errno as i32);
        if waits {
            set(flags | OFlag::O_NONBLOCK)?;
        }
        let begun = self.begin(&socket, family);
        if waits {
            set(flags)?;
        }
        match begun {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(errno) => return Err(errno as i32),
        }
        let from = name(&socket).ok_or(libc::EACCES)?;
        self.making.push(Making { socket, family, from, call: waits.then_some(*call), since: Instant::now() });
        self.accept(asks);
        if waits { Ok(None) } else { Err(libc::EINPROGRESS) }
    }

    /// As far as it goes at once. The address is this process's own.
    fn begin(&self, socket: &OwnedFd, family: AddressFamily) -> nix::Result<()> {
        if family == AddressFamily::Inet {
            return connect(socket.as_raw_fd(), &SockaddrIn::from(self.real));
        }
        let mapped = std::net::SocketAddrV6::new(self.real.ip().to_ipv6_mapped(), self.real.port(), 0, 0);
        connect(socket.as_raw_fd(), &SockaddrIn6::from(mapped))
    }

    /// Takes in what has come, and tells who waited for it. What nobody here has asked for ends.
    pub fn accept(&mut self, asks: &Listener) {
        self.short = false;
        while self.made.len() < MOST {
            let (stream, from) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    // Mostly for want of numbers: it would be ready all the time.
                    self.short = error.kind() != io::ErrorKind::WouldBlock;
                    break;
                }
            };
            let Some(Making { socket, family, call, .. }) = matching(&mut self.making, &stream, from) else { continue };
            if let Some(call) = call {
                // It is connected; the kernel wants to be asked once more to say so.
                let made = self.begin(&socket, family).map_err(|errno| errno as i32);
                asks.answer(&call, made.map_or_else(Answer::Refused, |()| Answer::Done));
            }
            self.made.push_back(stream);
        }
        self.hand_over();
        self.making.retain(|making| {
            let late = making.since.elapsed() > PATIENCE;
            if let Some(call) = making.call.filter(|_| late) {
                asks.answer(&call, Answer::Refused(libc::ETIMEDOUT));
            }
            !late
        });
    }

    /// Hands over what is made, as far as there is room.
    pub fn hand_over(&mut self) {
        while let Some(stream) = self.made.pop_front() {
            match sys::channel::send(self.channel.as_fd(), b"c", Some(stream.as_fd()), false) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ETOOMANYREFS)) => {
                    self.made.push_front(stream);
                    return;
                }
                // Nobody serves any more: whoever has the other end sees that it ends.
                Ok(()) | Err(_) => {}
            }
        }
    }
}

/// Takes out the connection in the making of which `stream`, which comes from there, is the other end.
///
/// Somebody else's may come from the same place if it has ended by then, with what it said still to be read.
fn matching(making: &mut Vec<Making>, stream: &TcpStream, from: SocketAddr) -> Option<Making> {
    let index = making.iter().position(|making| making.from == from)?;
    // That place was free again before the target's own socket got it.
    stream.peer_addr().is_ok().then(|| making.swap_remove(index))
}

/// Where a socket of the network comes from, by the address that the other end sees.
fn name(socket: &OwnedFd) -> Option<SocketAddr> {
    let name: SockaddrStorage = getsockname(socket.as_raw_fd()).ok()?;
    let ip = match (name.as_sockaddr_in(), name.as_sockaddr_in6()) {
        (Some(name), _) => SocketAddr::V4(SocketAddrV4::from(*name)),
        (_, Some(name)) => SocketAddr::from((name.ip().to_ipv4_mapped()?, name.port())),
        _ => return None,
    };
    Some(ip)
}

/// The family and the address that the target names; one of the newer kind counts as far as it is one of the older.
fn read(memory: &Memory, address: u64, length: u64) -> Result<(AddressFamily, SocketAddrV4), i32> {
    const SHORT: usize = size_of::<libc::sockaddr_in>();
    /// Without the number of a network, as in RFC 2133.
    const LONG: usize = 24;
    let length = usize::try_from(notify::low(length)).map_err(|_| libc::EINVAL)?;
    let bytes = memory.bytes(address, length.min(LONG))?;
    let family = bytes.get(..2).ok_or(libc::EINVAL)?;
    let port = |bytes: &[u8]| u16::from_be_bytes([bytes[2], bytes[3]]);
    match i32::from(u16::from_ne_bytes([family[0], family[1]])) {
        libc::AF_INET if bytes.len() >= SHORT => {
            let ip = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
            Ok((AddressFamily::Inet, SocketAddrV4::new(ip, port(&bytes))))
        }
        libc::AF_INET6 if bytes.len() >= LONG => {
            let mut ip = [0; 16];
            ip.copy_from_slice(&bytes[8..24]);
            let ip = std::net::Ipv6Addr::from(ip).to_ipv4_mapped().ok_or(libc::EACCES)?;
            Ok((AddressFamily::Inet6, SocketAddrV4::new(ip, port(&bytes))))
        }
        libc::AF_INET | libc::AF_INET6 => Err(libc::EINVAL),
        _ => Err(libc::EACCES),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use nix::sys::socket::{SockFlag, bind, setsockopt, socket};

    use super::*;

    /// A connection from a port, which is one that was free if that is 0, and that port.
    fn from(port: u16, to: SocketAddr) -> (TcpStream, SocketAddr) {
        let made = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
        setsockopt(&made, sockopt::ReuseAddr, &true).unwrap();
        bind(made.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port)).unwrap();
        let SocketAddr::V4(to) = to else { panic!("{to}") };
        connect(made.as_raw_fd(), &SockaddrIn::from(to)).unwrap();
        let stream = TcpStream::from(made);
        let name = stream.local_addr().unwrap();
        (stream, name)
    }

    #[test]
    fn what_ended_is_not_taken_for_what_comes_from_the_same_port_now() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let (mut others, place) = from(0, to);
        others.write_all(b"others").unwrap();
        setsockopt(&others, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
        drop(others);
        let (mut own, same) = from(place.port(), to);
        assert_eq!(same, place);
        own.write_all(b"own").unwrap();
        let socket = OwnedFd::from(own.try_clone().unwrap());
        let one = Making { socket, family: AddressFamily::Inet, from: same, call: None, since: Instant::now() };
        let mut making = vec![one];
        let (stale, at) = listener.accept().unwrap();
        assert_eq!(at, place);
        assert!(matching(&mut making, &stale, at).is_none() && making.len() == 1);
        let (mut fresh, at) = listener.accept().unwrap();
        assert!(matching(&mut making, &fresh, at).is_some() && making.is_empty());
        let mut heard = [0; 3];
        fresh.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"own");
    }
}
