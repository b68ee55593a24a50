//! The way out of a network that is off: a port inside that leads to a proxy.
//!
//! Looks at the socket of somebody else's proxy; everything else is a matter of the policy alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::build::expand;
use super::links::reason;
use super::resolve::Lost;
use crate::backend::Backend;
use crate::egress::host;
use crate::egress::rules::Rules;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::policy::{Egress, Policy, Protection};

/// The port inside on which a proxy of our own listens: in a network that was just made it is free.
pub const PORT: u16 = 3128;

/// The longest path that a socket can be reached by.
pub const PATH_MAX: usize = 107;

/// A port inside and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayOut {
    /// On 127.0.0.1.
    pub port: u16,
    /// Who is at the other end.
    pub to: To,
}

/// Who is at the other end of a way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// A proxy of our own with these rules.
    Proxy(Rules),
    /// Whoever listens on this socket.
    Socket(PathBuf),
}

impl WayOut {
    /// What explains why something is not reached.
    #[must_use]
    pub fn note(&self) -> String {
        format!(
            "nothing is reached but by the proxy at 127.0.0.1:{}, to which HTTP_PROXY and the like lead; what ignores these \
             variables fails",
            self.port
        )
    }

    /// Whether a rule is about a loopback address of the host. Programs inside do not ask a proxy for one, unless they are told to.
    #[must_use]
    pub fn serves_loopback(&self) -> bool {
        match &self.to {
            To::Proxy(rules) => {
                let own = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].map(host::Host::address);
                rules.speak_of(own.into_iter().chain(host::Host::parse("localhost")))
            }
            To::Socket(_) => false,
        }
    }
}

/// The way out that `policy` asks for. Where `backend` has none, that is among what is `lost`.
pub fn find(policy: &Policy, host: &Host, backend: Backend, lost: &mut Lost) -> Result<Option<WayOut>> {
    let Egress { hosts, socket, port } = &policy.egress;
    let refuse = |text: &str| Err(Error::text(Kind::Policy, text));
    let way = match (hosts.is_empty(), socket, port) {
        (true, None, None) => return Ok(None),
        (false, None, None) => {
            let rules = Rules::new(hosts.iter().map(|host| host.rule.clone()).collect());
            if rules.only_deny() {
                return refuse("cannot let requests leave: every rule of --allow-host forbids, and none allows");
            }
            if cfg!(not(all(target_os = "linux", feature = "proxy"))) {
                return refuse("cannot let requests leave (--allow-host): this build has no proxy");
            }
            WayOut { port: PORT, to: To::Proxy(rules) }
        }
        (false, ..) => {
            return refuse("cannot use two proxies: --allow-host starts one, and --egress-socket names another");
        }
        (true, Some(_), None) => return refuse("cannot use the proxy of --egress-socket: --egress-port is missing"),
        (true, None, Some(_)) => return refuse("cannot listen on --egress-port: --egress-socket is missing"),
        (true, Some(path), Some(port)) => WayOut { port: *port, to: To::Socket(socket_at(path, host)?) },
    };
    match backend {
        Backend::Bwrap => Ok(Some(way)),
        Backend::Landlock | Backend::Seatbelt | Backend::Container(_) | Backend::JobObject | Backend::None => {
            lost.push((Protection::Network, format!("requests are not filtered under backend '{backend}'").into()));
            Ok(None)
        }
    }
}

fn socket_at(path: &Path, host: &Host) -> Result<PathBuf> {
    let refuse =
        |reason: &str| Error::text(Kind::Policy, format!("cannot use the proxy socket '{}': {reason}", path.display()));
    if path.is_relative() && !path.starts_with("~") {
        return Err(refuse("it has to be an absolute path"));
    }
    let full = expand(path, host, None)?;
    if full.as_os_str().as_bytes().len() > PATH_MAX {
        return Err(refuse(&format!("the path is longer than {PATH_MAX} bytes, the limit of the system")));
    }
    let found = std::fs::metadata(&full).map_err(|error| refuse(&reason(&full, &error)))?;
    if found.file_type().is_socket() { Ok(full) } else { Err(refuse("not a socket")) }
}
