//! What the caller's standard streams lead to, besides what can be read and written by them.
//!
//! Looks at descriptors and changes none. Those of `--keep-fd` are passed on purpose and are not looked at.

use std::borrow::Cow;

use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::policy::{Network, Protection};
use crate::sys;
use crate::sys::fd::Socket;

const NAMES: [&str; 3] = ["standard input", "standard output", "standard error"];

/// Streams that lead further than they should, by name.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// A socket of the host's network.
    internet: Option<&'static str>,
    /// A Unix socket that can be sent from, or connected, to others.
    pub open: Option<&'static str>,
}

/// Looks at each stream that crosses. What leads out in a way that nothing closes is refused: a directory, by `..`, to the host's
/// whole tree, and a socket of a rare family to what no namespace holds.
pub(super) fn look(host: &Host) -> Result<Streams> {
    let mut streams = Streams::default();
    for ((number, name), closed) in (0..).zip(NAMES).zip(host.inherited.closed) {
        if closed {
            continue;
        }
        let refuse = |reason: &str| Error::text(Kind::Policy, format!("cannot pass {name} on: {reason}"));
        if sys::fd::is_directory(number) {
            let error = refuse("it is a directory, and leads to everything around it");
            return Err(error.hint("--keep-fd passes a directory on purpose"));
        }
        match sys::fd::socket(number) {
            Some(Socket::Internet) => drop(streams.internet.get_or_insert(name)),
            Some(Socket::Open) => drop(streams.open.get_or_insert(name)),
            Some(Socket::Other) => {
                let error = refuse("it is a socket of a family that leads past the sandbox's network");
                return Err(error.hint("--keep-fd passes a socket on purpose").hint(PIPE));
            }
            Some(Socket::Connected) | None => {}
        }
    }
    Ok(streams)
}

const PIPE: &str = "a pipe in between passes the bytes and not the socket: 'cat | sandbox-run … | cat'";

impl Streams {
    /// What they take away.
    pub fn lost(&self, network: Network) -> Option<(Protection, Cow<'static, str>)> {
        let name = self.internet.filter(|_| network == Network::Off)?;
        let missing = format!("{name} is a socket of the host's network, which can be connected to other hosts");
        Some((Protection::Network, missing.into()))
    }

    /// What helps where that was refused.
    pub fn hint(&self, error: Error, network: Network) -> Error {
        let internet = self.internet.is_some() && network == Network::Off;
        let error = if internet { error.hint("--net host lets it pass, with the whole network") } else { error };
        if internet || self.open.is_some() { error.hint(PIPE) } else { error }
    }
}
