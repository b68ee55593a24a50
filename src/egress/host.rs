//! Host names, addresses and ports as rules and requests write them.
//!
//! One grammar for both, so that nothing can be asked for that a rule reads in another way. Nothing is resolved here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A DNS name in lower case, without a dot at its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName(String);

impl HostName {
    /// Reads a name; the reason against it stands behind what was written.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err("has no host");
        }
        if !text.is_ascii() {
            return Err("has a host that is not ASCII (write it in punycode, as 'xn--…')");
        }
        if text.len() > 253 {
            return Err("has a host of more than 253 characters");
        }
        for label in text.split('.') {
            if label.is_empty() {
                return Err("has a host with an empty label");
            }
            if label.len() > 63 {
                return Err("has a host with a label of more than 63 characters");
            }
            if !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
                return Err("has a host with a character that no name has");
            }
            if label.starts_with('-') || label.ends_with('-') {
                return Err("has a host with a hyphen at the edge of a label");
            }
        }
        // What many resolvers read as an address: 2130706433, 0x7f.1, 0177.0.0.1.
        if text.rsplit('.').next().is_some_and(is_number) {
            return Err("has a host that is neither a name nor an address of four decimal numbers");
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this name lies below `domain`, at any depth; the domain itself does not.
    #[must_use]
    pub fn is_below(&self, domain: &Self) -> bool {
        self.0.strip_suffix(&domain.0).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// What a request wants to reach.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name, which somebody has to resolve.
    Name(HostName),
    /// An address as it is; an IPv4 address in the clothes of IPv6 is an IPv4 address.
    Address(IpAddr),
}

impl Host {
    /// A host as it stands in a URL: IPv6 addresses in brackets.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(rest) = text.strip_prefix('[') {
            let inner = rest.strip_suffix(']').ok_or("has a bracket without its other half")?;
            let address = inner.parse::<Ipv6Addr>().map_err(|_| "has brackets around what is no IPv6 address")?;
            return Ok(Self::address(IpAddr::V6(address)));
        }
        if let Ok(address) = text.strip_suffix('.').unwrap_or(text).parse::<Ipv4Addr>() {
            return Ok(Self::Address(IpAddr::V4(address)));
        }
        HostName::parse(text).map(Self::Name)
    }

    /// An address as a host.
    #[must_use]
    pub fn address(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// A port number; the reason against it stands behind what was written.
pub fn port(text: &str) -> Result<u16, &'static str> {
    const NOT_A_PORT: &str = "has a port that is no number from 1 to 65535";
    if text.is_empty() || text.starts_with('0') || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NOT_A_PORT);
    }
    text.parse().map_err(|_| NOT_A_PORT)
}

/// `HOST[:PORT]`, and nothing else: no user, no path.
pub fn authority(text: &str) -> Result<(Host, Option<u16>), &'static str> {
    let bare = text.rfind(']').map_or(0, |at| at + 1);
    let (host, number) = match text[bare..].find(':') {
        Some(colon) => (&text[..bare + colon], Some(port(&text[bare + colon + 1..])?)),
        None => (text, None),
    };
    Ok((Host::parse(host)?, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case_and_without_the_last_dot() {
        for text in ["ok.test", "OK.Test", "ok.test."] {
            assert_eq!(HostName::parse(text).unwrap().as_str(), "ok.test");
        }
        assert!(HostName::parse("a_b.xn--nxasmq6b.test").is_ok());
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "a".repeat(64);
        let whole = ["a23456789"; 26].join(".");
        for text in [
            "",
            ".",
            "..",
            "ok..test",
            ".ok",
            "ok.test..",
            "a b",
            "a\0b",
            "a%2eb",
            "a@b",
            "a/b",
            "a\\b",
            "a#b",
            "a?b",
            "-a.test",
            "a-.test",
            "bücher.test",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "1.2.3.4.5",
            "a.0x1",
            "256.1.1.1",
            "*",
            "a:b",
            "[a]",
            &long,
            &whole,
        ] {
            assert!(HostName::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_name_lies_below_whole_labels_only() {
        let name = |text| HostName::parse(text).unwrap();
        let domain = name("sub.test");
        for below in ["a.sub.test", "a.b.sub.test"] {
            assert!(name(below).is_below(&domain), "{below}");
        }
        for beside in ["sub.test", "xsub.test", "sub.test.evil.test", "test"] {
            assert!(!name(beside).is_below(&domain), "{beside}");
        }
    }

    #[test]
    fn an_authority_is_a_host_and_maybe_a_port() {
        let read = |text: &str| authority(text).map(|(host, port)| (host.to_string(), port));
        assert_eq!(read("ok.test:80"), Ok(("ok.test".into(), Some(80))));
        assert_eq!(read("[::1]:80"), Ok(("[::1]".into(), Some(80))));
        assert_eq!(read("[::ffff:127.0.0.1]"), Ok(("127.0.0.1".into(), None)));
        assert_eq!(read("127.0.0.1."), Ok(("127.0.0.1".into(), None)));
        for text in [
            "ok.test:",
            "ok.test:0",
            "ok.test:080",
            "ok.test:65536",
            "ok.test:8 0",
            "u@ok.test",
            "::1",
            "[::1",
            "::1]",
            "[::1]x:80",
            "[fe80::1%25eth0]",
            "ok.test:80:80",
            "[ok.test]",
            "[127.0.0.1]",
            ":80",
            "",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
