//! Which addresses a name may lead to, and how a name becomes one address for good.
//!
//! A name is resolved once; every address of the answer is looked at, and one that is refused spoils the whole answer, for
//! what an allowed name points to is up to whoever runs that name. Only what was looked at is connected to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use super::host::{Host, HostName};
use super::rules::{Inside, Rule, Rules};

/// Why names do not lead to `address`; `None` for one that the whole world can reach.
#[must_use]
pub fn refused(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => refused_v4(address),
        IpAddr::V6(address) => refused_v6(address),
    }
}

// IANA's registries of special-purpose addresses, and what is special without being there.
fn refused_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "unspecified",
        [127, ..] => "loopback",
        // Of two clouds; the first has a link-local one as well, and the second is a public address with a private service.
        [169, 254, 169, 254] | [100, 100, 100, 200] | [168, 63, 129, 16] => "cloud metadata",
        [169, 254, ..] => "link-local",
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => "private",
        [100, 64..=127, ..] => "shared by a provider",
        [192, 0, 0, _] | [192, 88, 99, _] | [240..=255, ..] => "reserved",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "for documentation",
        [198, 18..=19, ..] => "for measurements",
        [224..=239, ..] => "multicast",
        _ => return None,
    })
}

fn refused_v6(address: Ipv6Addr) -> Option<&'static str> {
    let parts = address.segments();
    let tail = |from: usize| {
        let [a, b] = parts[from].to_be_bytes();
        let [c, d] = parts[from + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match parts {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        // What carries an IPv4 address arrives there in the end: NAT64, 6to4, Teredo (the address inverted), ISATAP.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => refused_v4(tail(6)),
        [0x2002, ..] => refused_v4(tail(1)),
        [0x2001, 0, ..] => refused_v4(tail(2)).or_else(|| refused_v4(Ipv4Addr::from_bits(!tail(6).to_bits()))),
        [0x2000..=0x3fff, _, _, _, 0 | 0x200, 0x5efe, ..] if refused_v4(tail(6)).is_some() => refused_v4(tail(6)),
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Some("for documentation"),
        [0x2001, 0..=0x01ff, ..] => Some("reserved"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Some("private"),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("reserved"),
    }
}

/// Who turns names into addresses.
pub trait Resolve: Send + Sync {
    /// All addresses of `name`, in the order in which they should be tried.
    fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of this host.
#[derive(Clone, Copy, Debug)]
pub struct System;

impl Resolve for System {
    fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        Ok((name.as_str(), 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}

/// Why no connection came about.
#[derive(Debug)]
pub enum Failure<'a> {
    /// The name has no address, or nobody knows it.
    Unresolved,
    /// An address that names do not lead to, and what it is.
    Address(IpAddr, &'static str),
    /// An address that a rule forbids.
    Forbidden(IpAddr, &'a Rule),
    /// It would be this proxy itself.
    Loop,
    /// It would be the proxy that is asked for connections.
    Upstream,
    /// Nobody answered in time.
    TimedOut,
    /// The connection was refused, or there is no way.
    Unreachable(io::Error),
}

/// Addresses that were looked at, all of them good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned(Vec<SocketAddr>);

/// Looks at every address of `host`. `own` are those at which this proxy itself listens.
pub fn pin<'a>(
    rules: &'a Rules,
    resolver: &dyn Resolve,
    own: &[SocketAddr],
    (host, port): (&Host, u16),
    inside: Option<&Inside>,
) -> Result<Pinned, Failure<'a>> {
    let addresses = match host {
        // A rule names it: names are not led astray here.
        Host::Address(address) => vec![*address],
        Host::Name(name) => resolver.resolve(name).map_err(|_| Failure::Unresolved)?,
    };
    let mut pinned = Vec::new();
    for address in addresses {
        let address = address.to_canonical();
        if let Some(rule) = rules.forbids(address, port, inside) {
            return Err(Failure::Forbidden(address, rule));
        }
        let there = SocketAddr::new(address, port);
        let listens = |own: &SocketAddr| own.port() == port && (own.ip() == address || own.ip().is_unspecified());
        if own.iter().any(listens) {
            return Err(Failure::Loop);
        }
        if rules.grants(address, port, inside).is_none() {
            if let Some(what) = refused(address) {
                return Err(Failure::Address(address, what));
            }
            if is_of_this_host(there) {
                return Err(Failure::Address(address, "of this host itself"));
            }
        }
        if !pinned.contains(&there) {
            pinned.push(there);
        }
    }
    if pinned.is_empty() { Err(Failure::Unresolved) } else { Ok(Pinned(pinned)) }
}

/// Where the proxy is that is asked for connections. Whoever started the run has named it: it may be anywhere.
pub fn locate<'a>(resolver: &dyn Resolve, (host, port): (&Host, u16)) -> Result<Pinned, Failure<'a>> {
    let addresses = match host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => resolver.resolve(name).map_err(|_| Failure::Unresolved)?,
    };
    let there: Vec<_> = addresses.into_iter().map(|address| SocketAddr::new(address.to_canonical(), port)).collect();
    if there.is_empty() { Err(Failure::Unresolved) } else { Ok(Pinned(there)) }
}

/// What can be said of a server that the proxy at `upstream` is asked for: an address is looked at as in [`pin`], a name is not
/// resolved here. The name of every loopback is taken for one. Nobody is let through to that proxy itself.
pub fn beyond<'a>(
    rules: &'a Rules,
    resolver: &dyn Resolve,
    (upstream, there): (&Host, &Pinned),
    (host, port): (&Host, u16),
    inside: Option<&Inside>,
) -> Result<(), Failure<'a>> {
    if there.0.iter().any(|address| address.port() == port) {
        // By whatever name.
        let same = |address: &IpAddr| {
            let address = address.to_canonical();
            // Its own names for itself: a loopback that it is asked for is its own.
            address.is_loopback()
                || address.is_unspecified()
                || there.0.iter().any(|there| there.ip() == address)
                || is_of_this_host(SocketAddr::new(address, port))
        };
        let led_there = match host {
            Host::Address(address) => same(address),
            Host::Name(name) => resolver.resolve(name).is_ok_and(|addresses| addresses.iter().any(same)),
        };
        let own_name = matches!(host, Host::Name(name) if is_loopback(name));
        if led_there || own_name || host == upstream {
            return Err(Failure::Upstream);
        }
    }
    match host {
        Host::Address(_) => pin(rules, resolver, &[], (host, port), inside).map(|_| ()),
        Host::Name(name) if is_loopback(name) => {
            let own = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            if let Some((address, rule)) = own.iter().find_map(|own| Some((*own, rules.forbids(*own, port, inside)?))) {
                return Err(Failure::Forbidden(address, rule));
            }
            let granted = own.iter().any(|own| rules.grants(*own, port, inside).is_some());
            if granted { Ok(()) } else { Err(Failure::Address(own[0], "loopback")) }
        }
        Host::Name(_) => Ok(()),
    }
}

/// Whether a name means the host itself wherever it is resolved (RFC 6761, section 6.3).
fn is_loopback(name: &HostName) -> bool {
    name.as_str() == "localhost" || name.as_str().ends_with(".localhost")
}

/// Whether packets to `address` would stay here: the kernel then chooses that address for the sender as well.
fn is_of_this_host(address: SocketAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // Connecting a datagram socket sends nothing.
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    chosen.is_ok_and(|chosen| chosen.ip() == address.ip())
}

impl Pinned {
    /// Connects to the first address that answers, within `time` for all of them together.
    pub fn connect<'a>(&self, time: Duration) -> Result<(TcpStream, SocketAddr), Failure<'a>> {
        let end = Instant::now() + time;
        let mut last = Failure::TimedOut;
        for (index, address) in self.0.iter().enumerate() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // One that swallows everything must not take the time of all others.
            let others = u32::try_from(self.0.len() - index).unwrap_or(u32::MAX);
            let share = if others > 1 { (left / others).max(Duration::from_secs(2)).min(left) } else { left };
            match TcpStream::connect_timeout(address, share) {
                Ok(stream) => return Ok((stream, *address)),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => last = Failure::TimedOut,
                Err(error) => last = Failure::Unreachable(error),
            }
        }
        Err(last)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;

    struct Fixed(Vec<IpAddr>);

    impl Resolve for Fixed {
        fn resolve(&self, _: &HostName) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.clone())
        }
    }

    fn rules(texts: &[&str]) -> Rules {
        Rules::new(texts.iter().map(|text| Rule::parse(text).unwrap()).collect())
    }

    fn outcome(texts: &[&str], answer: &[&str], port: u16) -> String {
        let rules = rules(texts);
        let answer = Fixed(answer.iter().map(|text| text.parse().unwrap()).collect());
        let name = Host::parse("ok.test").unwrap();
        match pin(&rules, &answer, &["127.0.0.1:4242".parse().unwrap()], (&name, port), None) {
            Ok(pinned) => pinned.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(Failure::Address(address, what)) => format!("{address} is {what}"),
            Err(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn names_do_not_lead_to_addresses_that_are_not_public() {
        for (address, what) in [
            ("127.0.0.1", "loopback"),
            ("10.0.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.1.1", "private"),
            ("169.254.1.1", "link-local"),
            ("169.254.169.254", "cloud metadata"),
            ("100.100.100.200", "cloud metadata"),
            ("100.64.0.1", "shared by a provider"),
            ("168.63.129.16", "cloud metadata"),
            ("192.0.0.8", "reserved"),
            ("192.0.2.1", "for documentation"),
            ("198.19.0.1", "for measurements"),
            ("224.0.0.1", "multicast"),
            ("255.255.255.255", "reserved"),
            ("0.0.0.0", "unspecified"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::127.0.0.1", "reserved"),
            ("::ffff:0:127.0.0.1", "reserved"),
            ("64:ff9b::7f00:1", "loopback"),
            ("64:ff9b:1::1", "reserved"),
            ("2002:7f00:1::1", "loopback"),
            ("2001:0:0808:0808::80ff:fffe", "loopback"),
            ("2001:0:7f00:1::f7f7:f7f7", "loopback"),
            ("2a00::5efe:10.0.0.1", "private"),
            ("2001:db8::1", "for documentation"),
            ("2001:10::1", "reserved"),
            ("fd00::1", "private"),
            ("fec0::1", "private"),
            ("fe80::1", "link-local"),
            ("ff02::1", "multicast"),
            ("100::1", "reserved"),
            ("5f00::1", "reserved"),
        ] {
            assert_eq!(refused(address.parse().unwrap()), Some(what), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.32.0.1",
            "169.253.1.1",
            "168.63.129.15",
            "223.255.255.255",
            "2606:4700::1111",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2001:200::1",
            "2001:0:0808:0808::f7f7:f7f7",
        ] {
            assert_eq!(refused(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn one_bad_address_spoils_the_answer() {
        assert_eq!(outcome(&["ok.test"], &["8.8.8.8", "1.1.1.1"], 80), "8.8.8.8:80 1.1.1.1:80");
        assert_eq!(outcome(&["ok.test"], &["8.8.8.8", "10.0.0.1"], 80), "10.0.0.1 is private");
        assert_eq!(outcome(&["ok.test"], &[], 80), "Unresolved");
        assert_eq!(
            outcome(&["ok.test", "!8.8.0.0/16"], &["1.1.1.1", "8.8.8.8"], 80).split('(').next(),
            Some("Forbidden")
        );
    }

    #[test]
    fn a_rule_grants_by_address_and_port() {
        let list = ["ok.test", "127.0.0.1:8080"];
        assert_eq!(outcome(&list, &["127.0.0.1"], 8080), "127.0.0.1:8080");
        assert_eq!(outcome(&list, &["::ffff:127.0.0.1"], 8080), "127.0.0.1:8080");
        assert_eq!(outcome(&list, &["127.0.0.1"], 8081), "127.0.0.1 is loopback");
        assert_eq!(outcome(&list, &["127.0.0.2"], 8080), "127.0.0.2 is loopback");
    }

    #[test]
    fn the_proxy_does_not_reach_itself() {
        assert_eq!(outcome(&["ok.test", "127.0.0.0/8:4242"], &["127.0.0.1"], 4242), "Loop");
        assert_eq!(outcome(&["ok.test", "127.0.0.0/8:4242"], &["127.0.0.2"], 4242), "127.0.0.2:4242");
    }

    #[test]
    fn addresses_of_this_host_are_told_apart() {
        assert!(is_of_this_host("127.0.0.1:80".parse().unwrap()));
        assert!(!is_of_this_host("192.0.2.1:80".parse().unwrap()));
    }

    #[test]
    fn the_next_address_is_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let nobody = SocketAddr::new("127.0.0.3".parse().unwrap(), there.port());
        let (_, reached) = Pinned(vec![nobody, there]).connect(Duration::from_secs(5)).unwrap();
        assert_eq!(reached, there);
        assert!(matches!(Pinned(vec![nobody]).connect(Duration::from_secs(5)), Err(Failure::Unreachable(_))));
    }

    proptest! {
        #[test]
        fn clothes_do_not_matter(bits: u32) {
            let plain = Ipv4Addr::from_bits(bits);
            let [a, b] = [(bits >> 16) as u16, (bits & 0xffff) as u16];
            let expected = refused(plain.into());
            prop_assert_eq!(refused(plain.to_ipv6_mapped().into()), expected);
            prop_assert_eq!(refused(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b).into()), expected);
            prop_assert_eq!(refused(Ipv6Addr::new(0x2002, a, b, 0, 0, 0, 0, 1).into()), expected);
        }

        #[test]
        fn only_global_unicast_is_reached(bits: u128) {
            let address = Ipv6Addr::from_bits(bits);
            if refused(address.into()).is_none() && address.to_ipv4_mapped().is_none() {
                prop_assert!(bits >> 125 == 1 || bits >> 96 == 0x0064_ff9b_0000_0000_u128 << 32 >> 32 || (bits >> 32) == (0x0064_ff9b_u128 << 64));
            }
        }
    }
}
