//! The way out of a network that is off: on the host a proxy, or a socket of somebody else's; inside a port that leads there.
//!
//! The port is listened on before the target starts, so that nobody else is. A proxy of our own gets that very listener, which
//! stays in the network of the sandbox, and no byte takes another way; for somebody else's a process inside carries bytes. Where the
//! target has no network of its own, a proxy of ours listens on a port of this host.

mod port;

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use nix::sys::socket::Backlog;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

pub use port::Port;

use super::secrets::Secrets;

use crate::egress::log::Counted;
use crate::egress::source::Source;
use crate::egress::token::Token;
use crate::plan::Plan;
use crate::plan::way_out::{Entry, Filter, To};
use crate::sys;

/// What the inner stage has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// The port to listen on; none where that is done outside.
    port: Option<u16>,
    /// Where to send the listener.
    channel: Option<RawFd>,
    /// The socket to carry bytes to.
    socket: Option<RawFd>,
    /// Where to put what comes back by that channel: certificates to trust.
    trust: Option<PathBuf>,
}

impl Wanted {
    /// The port by which the target asks for it, where it is listened on inside.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The descriptor that has to reach the inner stage.
    #[must_use]
    pub fn number(&self) -> Option<RawFd> {
        self.channel.or(self.socket)
    }

    /// The same, where it can be given another number.
    pub fn number_mut(&mut self) -> Option<&mut RawFd> {
        self.channel.as_mut().or(self.socket.as_mut())
    }
}

/// A way out, on the host.
#[derive(Debug)]
pub struct Outside {
    /// What goes inside.
    file: OwnedFd,
    port: Option<u16>,
    proxy: Option<Proxy>,
    trust: Option<PathBuf>,
}

impl Outside {
    /// Starts what the plan asks for, with `secrets` for requests and lines about these to `log`. `held` is the port that the plan
    /// has for it, if that is one of this host.
    pub fn start(plan: &Plan, secrets: &Secrets, log: Option<&File>, held: Option<Port>) -> io::Result<Option<Self>> {
        let Some(way) = &plan.way_out else { return Ok(None) };
        let (port, token) = match &way.entry {
            Entry::Inside(port) => (Some(*port), None),
            Entry::OfHost { port, token } => {
                let own = held.as_ref().map(Port::number);
                if own.is_none() || own != *port {
                    return Err(io::Error::other("a plan with another port than the one that was taken"));
                }
                (None, Some(token))
            }
        };
        let (file, proxy) = match &way.to {
            To::Socket(path) => (hold_socket(path)?, None),
            To::Proxy(filter) => {
                let (hearing, inside) = sys::channel::pair()?;
                let service = Service { filter, secrets, log, trust: way.trust.is_some(), token };
                (inside, Some(Proxy::start(&service, &hearing, held)?))
            }
        };
        Ok(Some(Self { file, port, proxy, trust: way.trust.clone() }))
    }

    /// What the inner stage is told.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        let number = self.file.as_raw_fd();
        let (channel, socket) = if self.proxy.is_some() { (Some(number), None) } else { (None, Some(number)) };
        Wanted { port: self.port, channel, socket, trust: self.trust.clone() }
    }

    /// What goes inside, and what stays.
    #[must_use]
    pub fn part(self) -> (OwnedFd, Option<Proxy>) {
        (self.file, self.proxy)
    }
}

/// The socket itself, whatever becomes of its name.
#[cfg(target_os = "linux")]
fn hold_socket(path: &std::path::Path) -> io::Result<OwnedFd> {
    Ok(sys::at::place(path, true)?.into())
}

#[cfg(not(target_os = "linux"))]
fn hold_socket(_: &std::path::Path) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What a proxy is to do.
#[cfg_attr(not(feature = "proxy"), allow(dead_code, reason = "there is none to do it"))]
struct Service<'a> {
    filter: &'a Filter,
    secrets: &'a Secrets,
    log: Option<&'a File>,
    /// Whether somebody inside waits for certificates.
    trust: bool,
    /// What a client has to say first, where others can come.
    token: Option<&'a Token>,
}

/// A proxy of our own, seen from the process that started it. Ended when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    pid: Pid,
    handle: sys::pidfd::PidFd,
    control: UnixStream,
    /// Held here as well: should the proxy end before the run, nobody else is to have it.
    _port: Option<Port>,
}

impl Proxy {
    #[cfg(feature = "proxy")]
    fn start(service: &Service, hearing: &OwnedFd, port: Option<Port>) -> io::Result<Self> {
        let (control, theirs) = UnixStream::pair()?;
        let pid = sys::process::fork(|| {
            let _ended = process::serve(service, hearing, port.as_ref(), theirs);
            sys::process::exit_now(0)
        })?;
        let handle = sys::pidfd::PidFd::open(pid.as_raw()).inspect_err(|_| {
            let _sent = nix::sys::signal::kill(pid, Signal::SIGKILL);
        })?;
        Ok(Self { pid, handle, control, _port: port })
    }

    #[cfg(not(feature = "proxy"))]
    fn start(_: &Service, _: &OwnedFd, _: Option<Port>) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Its number: it is no part of the run.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets it end, and gives what it counted.
    #[must_use]
    pub fn finish(self) -> Option<Counted> {
        use std::io::Read;
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
        self.control.shutdown(std::net::Shutdown::Write).ok()?;
        self.control.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut told = Vec::new();
        (&self.control).take(1 << 20).read_to_end(&mut told).ok()?;
        serde_json::from_slice(&told).ok()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _sent = self.handle.send(Signal::SIGKILL);
        while nix::sys::wait::waitpid(self.pid, None) == Err(nix::errno::Errno::EINTR) {}
    }
}

/// As many as the kernel allows wait for us: whoever does not fit tries again after a second, and 128 are what libraries take.
#[cfg(target_os = "linux")]
pub(super) const QUEUE: Backlog = Backlog::MAXALLOWABLE;
#[cfg(not(target_os = "linux"))]
pub(super) const QUEUE: Backlog = Backlog::MAXCONN;

/// In the inner stage: listens, unless somebody does outside, and lets whoever is at the other end serve. Gives the channel to a proxy
/// of ours.
pub fn open(wanted: &Wanted) -> io::Result<Option<OwnedFd>> {
    let adopt = |number: Option<RawFd>| number.and_then(sys::fd::adopt);
    let Some(port) = wanted.port else { return Ok(adopt(wanted.channel)) };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    nix::sys::socket::listen(&listener, QUEUE)?;
    if let Some(channel) = adopt(wanted.channel) {
        sys::channel::send(channel.as_fd(), b"l", Some(listener.as_fd()), true)?;
        return Ok(Some(channel));
    }
    let socket = adopt(wanted.socket).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
    carry(&Source::Port(listener), &socket)?;
    Ok(None)
}

/// In the inner stage, where the network is the host's: whoever is at the other end is to get connections one by one, by what is
/// returned.
#[cfg(target_os = "linux")]
pub fn hand(wanted: &Wanted) -> io::Result<OwnedFd> {
    let adopt = |number: Option<RawFd>| number.and_then(sys::fd::adopt);
    if let Some(channel) = adopt(wanted.channel) {
        sys::channel::send(channel.as_fd(), b"s", None, true)?;
        return Ok(channel);
    }
    let socket = adopt(wanted.socket).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
    let (hearing, channel) = sys::channel::pair()?;
    carry(&Source::Handed(hearing), &socket)?;
    Ok(channel)
}

/// Puts what the proxy says is to be trusted where programs look for it.
pub fn trust(wanted: &Wanted, channel: &OwnedFd) -> io::Result<()> {
    let Some(place) = &wanted.trust else { return Ok(()) };
    let file = sys::channel::receive(channel.as_fd(), &mut [0])?.descriptor;
    // Without one it has ended, and why is not known here.
    let text = sys::fd::read_whole(file.ok_or_else(|| io::Error::from_raw_os_error(libc::EPIPE))?.as_fd())?;
    let mut file = File::options().write(true).create_new(true).mode(0o444).open(place)?;
    file.write_all(&text)
}

/// Starts a process that carries bytes. It ends with process 1, and the target can neither trace it nor see its memory.
#[cfg(target_os = "linux")]
fn carry(source: &Source, socket: &OwnedFd) -> io::Result<()> {
    sys::process::fork(|| {
        let _ended = (|| -> io::Result<()> {
            alone(&[source.as_fd().as_raw_fd(), socket.as_raw_fd()])?;
            let (_never, stop) = UnixStream::pair()?;
            crate::egress::relay::run(source, &sys::at::through(socket), stop.as_fd())
        })();
        sys::process::exit_now(0)
    })?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn carry(_: &Source, _: &OwnedFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What a process does first that serves the target: out of reach of its signals, with nothing open but `keep`.
#[cfg(any(target_os = "linux", feature = "proxy"))]
fn alone(keep: &[RawFd]) -> io::Result<()> {
    sys::process::end_with_parent()?;
    sys::process::hide()?;
    // Ctrl-C is for the target, which may still want to say goodbye to somebody.
    nix::unistd::setsid()?;
    // A log may be a pipe that nobody reads any more.
    sys::signals::ignore(Signal::SIGPIPE)?;
    sys::fd::silence(&[0, 1, 2])?;
    sys::fd::close_others(keep)?;
    crate::egress::raise_open_files();
    Ok(())
}

#[cfg(feature = "proxy")]
mod process {
    use std::fs::File;
    use std::io::{self, Write};
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::{Port, Secrets, Service};
    use crate::egress::address::System;
    use crate::egress::log::NetLog;
    use crate::egress::proxy::{Inspection, Limits, Listener, Proxy, serve as serve_proxy};
    use crate::egress::rules::{DEFAULT_PORTS, Rules};
    use crate::sys;

    /// In a process of its own: waits for the listener if it is not that of `port`, serves until the run is over, and says what was
    /// counted.
    pub(super) fn serve(
        service: &Service,
        hearing: &OwnedFd,
        port: Option<&Port>,
        mut control: UnixStream,
    ) -> io::Result<()> {
        let Service { filter, secrets, log, trust, token } = service;
        let log = log.map(File::try_clone).transpose()?;
        let own = port.map(Port::listener).transpose()?;
        let keep = [Some(hearing.as_raw_fd()), Some(control.as_raw_fd()), log.as_ref().map(AsRawFd::as_raw_fd)];
        let keep = keep.into_iter().chain([own.as_ref().map(AsRawFd::as_raw_fd)]);
        super::alone(&keep.flatten().collect::<Vec<_>>())?;
        let (inspection, certificates) = inspection(*trust, secrets)?.unzip();
        confine()?;
        let (stop, stopped) = UnixStream::pair()?;
        // A trial has not read where the upstream proxy is: nothing may leave past it.
        let unread = filter.upstream.is_some() && secrets.upstream().is_none();
        let proxy = Arc::new(Proxy {
            rules: if unread { Rules::default() } else { filter.rules.clone() },
            limits: Limits::default(),
            resolver: Box::new(System),
            log: NetLog::new(log),
            inspection,
            token: token.cloned(),
            upstream: secrets.upstream().cloned(),
            web: DEFAULT_PORTS.to_vec(),
            own: port.map(Port::address).into_iter().collect(),
            stop: stopped.into(),
        });
        let listener = match own {
            Some(own) => Some(Listener::Tcp(own)),
            None => listener(hearing, &control)?,
        };
        if let Some(listener) = listener {
            if let Some(certificates) = certificates {
                sys::channel::send(hearing.as_fd(), b"c", Some(certificates.as_fd()), true)?;
            }
            let serving = Arc::clone(&proxy);
            let served = std::thread::spawn(move || serve_proxy(&serving, &listener));
            wait(&[control.as_fd()]);
            drop(stop);
            // How it ended is of no use to anybody: what was counted counts.
            let _ended = served.join();
        }
        control.write_all(&serde_json::to_vec(&proxy.log.counted())?)
    }

    /// What it takes to look into connections, and all that the target is to trust then, in a file that nobody can change.
    #[cfg(feature = "intercept")]
    fn inspection(wanted: bool, secrets: &Secrets) -> io::Result<Option<(Inspection, OwnedFd)>> {
        use crate::egress::intercept::{Interception, Roots};
        if !wanted {
            return Ok(None);
        }
        let interception = Interception::new(&Roots::of_system()).map_err(io::Error::other)?;
        let certificates = sys::fd::sealed(c"certificates", interception.bundle().as_bytes())?;
        Ok(Some((Inspection { interception, credentials: secrets.credentials() }, certificates)))
    }

    #[cfg(not(feature = "intercept"))]
    #[allow(clippy::unnecessary_wraps, reason = "the same as with the feature")]
    fn inspection(_: bool, _: &Secrets) -> io::Result<Option<(Inspection, OwnedFd)>> {
        Ok(None)
    }

    /// It reads what a target wrote: nothing on this host is to be written, started or traced for that.
    #[cfg(target_os = "linux")]
    fn confine() -> io::Result<()> {
        nix::sys::prctl::set_no_new_privs()?;
        sys::process::drop_capabilities()?;
        let wall = sys::landlock::Wall { writable: &[], streams: &[], scope_sockets: true };
        // A kernel without Landlock does without.
        sys::landlock::raise(&wall, sys::landlock::version()).map_err(io::Error::other)?;
        sys::filter::load(&crate::seccomp::program(crate::seccomp::Options::default()))
    }

    /// Nobody has tried on a Mac what it would take to resolve names inside a profile.
    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unnecessary_wraps, reason = "on Linux there is something that can fail")]
    fn confine() -> io::Result<()> {
        Ok(())
    }

    /// The listener, or nothing where the run is over before there was one. Without one connections come themselves.
    fn listener(hearing: &OwnedFd, control: &UnixStream) -> io::Result<Option<Listener>> {
        if !wait(&[hearing.as_fd(), control.as_fd()]) {
            return Ok(None);
        }
        let arrived = sys::channel::receive(hearing.as_fd(), &mut [0])?;
        Ok(match arrived.descriptor {
            Some(listener) => Some(Listener::Tcp(listener.into())),
            None if arrived.length > 0 => Some(Listener::Handed(hearing.try_clone()?)),
            None => None,
        })
    }

    /// Waits for one of `files`; whether it is the first.
    fn wait(files: &[BorrowedFd]) -> bool {
        let mut polled: Vec<PollFd> = files.iter().map(|file| PollFd::new(*file, PollFlags::POLLIN)).collect();
        while poll(&mut polled, PollTimeout::NONE) == Err(nix::errno::Errno::EINTR) {}
        polled[0].any().unwrap_or(false)
    }
}
