//! What a refused call wanted of the network: the address, as strace writes it, and whether the sandbox is the reason.
//!
//! Looks into the host's lists of sockets in `/proc/net` and connects to nothing.

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::line;

/// The port at which names are looked up.
const NAMES: u16 = 53;

/// Whom a call is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// An address of the internet protocols.
    Internet(SocketAddr),
    /// A Unix socket by its path.
    Path(PathBuf),
    /// A Unix socket in the abstract space of names.
    Abstract(String),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Internet(address) if address.port() == NAMES => write!(f, "{address} (a name server)"),
            Self::Internet(address) => write!(f, "{address}"),
            Self::Path(path) => write!(f, "'{}'", path.display()),
            Self::Abstract(name) => write!(f, "'@{name}'"),
        }
    }
}

/// Calls that name a peer, or an address of their own.
pub(super) const CALLS: [&str; 4] = ["bind", "connect", "sendmsg", "sendto"];

/// Errors by which a network that is not there, or a loopback of one's own, answers.
const UNREACHED: [&str; 5] = ["ENETUNREACH", "EHOSTUNREACH", "ENETDOWN", "EADDRNOTAVAIL", "ECONNREFUSED"];

/// The peer among the arguments of `call`.
pub(super) fn peer(call: &str, arguments: &str) -> Option<Peer> {
    const START: &str = "{sa_family=AF_";
    // The data of one stands before the address, that of the others behind it or nowhere.
    let rest = if call == "sendto" { arguments.rsplit_once(START) } else { arguments.split_once(START) };
    let (_, rest) = rest?;
    let (family, rest) = rest.split_once(',')?;
    let between = |start: &str, end: &str| Some(rest.split_once(start)?.1.split_once(end)?.0);
    match family {
        "INET" | "INET6" => {
            let port = between("_port=htons(", ")")?.parse().ok()?;
            let text = match family {
                "INET" => between("inet_addr(\"", "\"")?,
                _ => between("inet_pton(AF_INET6, \"", "\"")?,
            };
            let address: IpAddr = text.parse().ok()?;
            Some(Peer::Internet(SocketAddr::new(address, port)))
        }
        "UNIX" => {
            let rest = rest.trim_start();
            let named = |text: &str| line::string(text);
            match rest.strip_prefix("sun_path=@\"") {
                Some(text) => Some(Peer::Abstract(named(text)?.display().to_string())),
                None => Some(Peer::Path(named(rest.strip_prefix("sun_path=\"")?)?)),
            }
        }
        _ => None,
    }
}

/// Why the sandbox is the reason for `error`, and what would help; `None` where it is not. For networks, not for paths.
pub(super) fn verdict(call: &str, peer: &Peer, error: &str, host_network: bool) -> Option<Verdict> {
    match peer {
        Peer::Internet(address) if call == "bind" => match error {
            "EACCES" | "EPERM" => Some(Verdict::Privileged),
            "EADDRNOTAVAIL" if !host_network && !address.ip().is_unspecified() => Some(Verdict::NoNetwork),
            _ => None,
        },
        Peer::Internet(_) if host_network => None,
        Peer::Internet(address) if !UNREACHED.contains(&error) => {
            // Nothing but a loopback is there, and to that nothing is forbidden.
            (error == "EPERM" && !address.ip().is_loopback()).then_some(Verdict::NoNetwork)
        }
        Peer::Internet(address) if address.ip().is_loopback() => {
            listens_on_host(address.port()).then_some(Verdict::OwnLoopback)
        }
        Peer::Internet(_) => Some(Verdict::NoNetwork),
        Peer::Abstract(name) => (call != "bind" && is_named_on_host(name)).then_some(Verdict::Abstract),
        Peer::Path(_) => None,
    }
}

/// Why a network was not reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// There is none but a loopback.
    NoNetwork,
    /// The service is the host's, and the loopback is not.
    OwnLoopback,
    /// Abstract names of the host.
    Abstract,
    /// A low port.
    Privileged,
}

impl Verdict {
    /// What would help, or that nothing does.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::NoNetwork => "there is no network inside: --net host gives all of the host's",
            Self::OwnLoopback => {
                "a service of the host, and the loopback inside is the sandbox's own: --net host gives the host's, with all \
                 else that it reaches"
            }
            Self::Abstract => "abstract sockets of the host are closed: no option opens them",
            Self::Privileged => "it takes a capability, and the command has none: no option allows it",
        }
    }
}

/// Whether something on the host waits at this port: for TCP in the state of listening, for UDP at all.
fn listens_on_host(port: u16) -> bool {
    let at = |table: &str, listening: Option<&str>| {
        let table = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        table.lines().skip(1).any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let local = fields.next().and_then(|local| u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok());
            let state = fields.nth(1);
            local == Some(port) && listening.is_none_or(|wanted| state == Some(wanted))
        })
    };
    at("tcp", Some("0A")) || at("tcp6", Some("0A")) || at("udp", None) || at("udp6", None)
}

fn is_named_on_host(name: &str) -> bool {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    table.lines().any(|line| line.rsplit_once(" @").is_some_and(|(_, found)| found == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_strace_writes_them() {
        for (arguments, expected) in [
            (
                "3<socket:[7]>, {sa_family=AF_INET, sin_port=htons(443), sin_addr=inet_addr(\"192.0.2.7\")}, 16",
                Some("192.0.2.7:443"),
            ),
            (
                "3, {sa_family=AF_INET6, sin6_port=htons(80), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, \"2001:db8::1\", \
                 &sin6_addr), sin6_scope_id=0}, 28",
                Some("[2001:db8::1]:80"),
            ),
            ("3, {sa_family=AF_UNIX, sun_path=\"/run/a b\\n\"}, 110", Some("'/run/a b\n'")),
            ("3, {sa_family=AF_UNIX, sun_path=@\"name\"}, 8", Some("'@name'")),
            ("3, {sa_family=AF_UNIX}, 2", None),
            ("3, {sa_family=AF_NETLINK, nl_pid=0, nl_groups=00000000}, 12", None),
            ("3, {sa_family=AF_INET, sin_port=htons(99999), sin_addr=inet_addr(\"x\")}, 16", None),
            ("3, NULL, 0", None),
        ] {
            assert_eq!(peer("connect", arguments).map(|peer| peer.to_string()).as_deref(), expected, "{arguments}");
        }
    }

    #[test]
    fn the_sandbox_is_the_reason_where_it_is() {
        let to = |text: &str| Peer::Internet(text.parse().unwrap());
        for (call, peer, error, host, expected) in [
            ("connect", to("192.0.2.7:443"), "ENETUNREACH", false, Some(Verdict::NoNetwork)),
            ("connect", to("192.0.2.7:443"), "ENETUNREACH", true, None),
            ("connect", to("192.0.2.7:443"), "EINPROGRESS", false, None),
            ("connect", to("127.0.0.1:0"), "ECONNREFUSED", false, None),
            ("bind", to("127.0.0.1:80"), "EACCES", true, Some(Verdict::Privileged)),
            ("bind", to("192.0.2.7:8080"), "EADDRNOTAVAIL", false, Some(Verdict::NoNetwork)),
            ("bind", to("192.0.2.7:8080"), "EADDRNOTAVAIL", true, None),
            ("bind", to("127.0.0.1:8080"), "EADDRINUSE", false, None),
            ("connect", Peer::Abstract("nobody has this name".into()), "ECONNREFUSED", false, None),
        ] {
            assert_eq!(verdict(call, &peer, error, host), expected, "{call} {peer} {error}");
        }
    }
}
