//! A port of this host for one run, where the target has no network of its own: on loopback, and its number is nobody else's.
//!
//! What keeps the target to it knows loopback and a number, and neither an address nor a protocol. So the same number is taken at the
//! other address of loopback and for datagrams as well, where nobody hears anything. All of it is held to the end of the run: who could
//! take the port in its midst would be sent what is for the proxy.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn6, bind, listen, socket};

use super::QUEUE;
use crate::backend::Backend;
use crate::policy::Policy;
use crate::sys;

/// How many numbers are tried: others may have one of them for datagrams.
const TRIES: usize = 64;

/// A port that is listened on.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    number: u16,
    /// The same number elsewhere.
    _kept: (Option<OwnedFd>, Vec<UdpSocket>),
}

impl Port {
    /// The one that a run under `backend` needs.
    pub fn of(policy: &Policy, backend: Backend) -> io::Result<Option<Self>> {
        let wanted = backend == Backend::Seatbelt && !policy.egress.hosts.is_empty();
        wanted.then(Self::take).transpose()
    }

    /// One that the kernel chooses.
    pub fn take() -> io::Result<Self> {
        let mut last = io::ErrorKind::AddrInUse.into();
        for _ in 0..TRIES {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let number = listener.local_addr()?.port();
            match kept(number) {
                Ok(kept) => {
                    listen(&listener, QUEUE)?;
                    return Ok(Self { listener, number, _kept: kept });
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Where it is listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }

    /// The same listener once more.
    pub fn listener(&self) -> io::Result<TcpListener> {
        self.listener.try_clone()
    }
}

/// Takes a number where it is not listened on. What this host has no address for is nobody's.
fn kept(number: u16) -> io::Result<(Option<OwnedFd>, Vec<UdpSocket>)> {
    let datagrams =
        [(Ipv4Addr::LOCALHOST, number).into(), (Ipv6Addr::LOCALHOST, number).into()].map(|address: SocketAddr| {
            match UdpSocket::bind(address) {
                Err(error) if address.is_ipv6() && !is_taken(&error) => Ok(None),
                bound => bound.map(Some),
            }
        });
    let datagrams = datagrams.into_iter().filter_map(io::Result::transpose).collect::<io::Result<_>>()?;
    match closed(number) {
        Err(error) if !is_taken(&error) => Ok((None, datagrams)),
        closed => Ok((Some(closed?), datagrams)),
    }
}

fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

/// A port of IPv6 that refuses whoever connects.
fn closed(number: u16) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Inet6, SockType::Stream, SockFlag::empty(), None)?;
    sys::fd::set_cloexec(socket.as_raw_fd(), true)?;
    let address = std::net::SocketAddrV6::new(Ipv6Addr::LOCALHOST, number, 0, 0);
    bind(socket.as_raw_fd(), &SockaddrIn6::from(address)).map_err(|errno: Errno| io::Error::from(errno))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    /// Somebody else on this host may be given a number for a moment.
    fn soon(free: impl Fn() -> bool) -> bool {
        (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            free()
        })
    }

    #[test]
    fn its_number_is_taken_at_every_address_of_loopback_and_for_datagrams() {
        let port = Port::take().unwrap();
        let taken = |error: io::Error| {
            // Without IPv6 there is no such address.
            assert!(matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable), "{error}");
        };
        let number = port.number();
        assert_eq!(port.address(), SocketAddr::from((Ipv4Addr::LOCALHOST, number)));
        taken(TcpListener::bind((Ipv4Addr::LOCALHOST, number)).unwrap_err());
        taken(TcpListener::bind((Ipv6Addr::LOCALHOST, number)).unwrap_err());
        taken(UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).unwrap_err());
        taken(UdpSocket::bind((Ipv6Addr::LOCALHOST, number)).unwrap_err());
        // One of them is listened on, and at the other nobody waits in vain.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, number)).unwrap());
        TcpStream::connect((Ipv6Addr::LOCALHOST, number)).unwrap_err();
        drop(port);
        // The control.
        assert!(soon(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).is_ok()));
    }

    #[test]
    fn a_number_that_somebody_has_for_datagrams_is_no_port() {
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let number = other.local_addr().unwrap().port();
        assert!(is_taken(&kept(number).unwrap_err()));
        drop(other);
        assert!(soon(|| kept(number).is_ok()));
    }
}
