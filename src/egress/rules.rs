//! Which requests may leave: the rules of `--allow-host`, read strictly and asked one request at a time.
//!
//! `[!][METHODS ]HOST[:PORT][/PATH]`: a rule that could never match is an error, because somebody relies on it. Nothing
//! matches by default, and a rule with `!` wins over all without. Pure: no name is resolved here.

use std::fmt;
use std::net::IpAddr;

use super::host::{self, Host, HostName};
use super::path::{PathPattern, RequestPath};

/// The ports of a rule that names none.
pub const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// What `*` stands for in a list of methods.
pub const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"];

/// A rule that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule {
    /// As it was written.
    pub text: String,
    /// What is wrong, to stand behind it.
    pub reason: &'static str,
    /// What may have been meant.
    pub meant: Option<String>,
}

impl BadRule {
    /// What is wrong, and what may have been meant, in one line.
    #[must_use]
    pub fn with_meant(&self) -> String {
        match &self.meant {
            Some(meant) => format!("{self} (did you mean '{meant}'?)"),
            None => self.to_string(),
        }
    }
}

impl fmt::Display for BadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' {}", self.text.escape_default(), self.reason)
    }
}

impl std::error::Error for BadRule {}

/// Addresses that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    first: IpAddr,
    bits: u8,
}

impl Net {
    fn new(first: IpAddr, bits: u8) -> Result<Self, &'static str> {
        let net = Self { first, bits };
        let wide = if first.is_ipv4() { 32 } else { 128 };
        if bits > wide {
            return Err("has more bits than its address");
        }
        if number(first) & !net.mask() != 0 {
            return Err("has address bits below its prefix length, so that it is not clear what it means");
        }
        Ok(net)
    }

    fn mask(self) -> u128 {
        let wide = if self.first.is_ipv4() { 32 } else { 128 };
        let low = wide - u32::from(self.bits);
        let all = if wide == 32 { u128::from(u32::MAX) } else { u128::MAX };
        if low >= 128 { 0 } else { all >> low << low }
    }

    /// Whether `address` is one of them.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && number(address) & self.mask() == number(self.first)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Name(HostName),
    Below(HostName),
    Net(Net),
}

impl Place {
    fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Name(own), Host::Name(name)) => own == name,
            (Self::Below(domain), Host::Name(name)) => name.is_below(domain),
            (Self::Net(net), Host::Address(address)) => net.contains(*address),
            _ => false,
        }
    }
}

/// Methods of a rule that names some.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Methods {
    Listed,
    These(Vec<&'static str>),
}

/// One rule, with its text for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    text: String,
    deny: bool,
    methods: Option<Methods>,
    place: Place,
    port: Option<u16>,
    path: Option<PathPattern>,
}

impl Rule {
    /// Reads a rule.
    pub fn parse(text: &str) -> Result<Self, BadRule> {
        let trimmed = text.trim();
        read(trimmed).map_err(|(reason, meant)| BadRule { text: text.to_owned(), reason, meant })
    }

    /// Whether it forbids.
    #[must_use]
    pub fn denies(&self) -> bool {
        self.deny
    }

    /// Whether it forbids addresses, also those that names lead to.
    #[must_use]
    pub fn forbids_addresses(&self) -> bool {
        self.deny && matches!(self.place, Place::Net(_))
    }

    /// Whether it looks at more than host and port, which nobody outside sees of an encrypted connection.
    #[must_use]
    pub fn looks_inside(&self) -> bool {
        self.path.is_some() || matches!(self.methods, Some(Methods::These(_)))
    }

    fn covers_port(&self, port: u16) -> bool {
        match self.port {
            Some(own) => own == port,
            None => self.deny || DEFAULT_PORTS.contains(&port),
        }
    }

    fn covers_inside(&self, inside: &Inside) -> bool {
        let method = match &self.methods {
            None => true,
            Some(Methods::Listed) => METHODS.contains(&inside.method),
            Some(Methods::These(own)) => own.contains(&inside.method),
        };
        method
            && self.path.as_ref().is_none_or(|own| {
                if self.deny { own.maybe_matches(inside.path) } else { own.surely_matches(inside.path) }
            })
    }

    /// Whether it lets a request leave.
    #[must_use]
    pub fn allows(&self, host: &Host, port: u16, inside: &Inside) -> bool {
        !self.deny && self.covers(host, port, Some(inside))
    }

    /// Whether a request to a host and port is covered; without a view inside, as far as that can be said.
    fn covers(&self, host: &Host, port: u16, inside: Option<&Inside>) -> bool {
        self.place.covers(host)
            && self.covers_port(port)
            && match inside {
                Some(inside) => self.covers_inside(inside),
                // What it forbids may be in there; what it allows may not.
                None => self.deny || !self.looks_inside(),
            }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

type Wrong = (&'static str, Option<String>);

fn read(text: &str) -> Result<Rule, Wrong> {
    let plain = |reason| (reason, None);
    let (deny, rest) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if rest.is_empty() {
        return Err(plain("is empty"));
    }
    if rest.starts_with(char::is_whitespace) {
        return Err(plain("has a blank behind its '!'"));
    }
    let blank = |c: char| matches!(c, ' ' | '\t');
    let (methods, rest) = match rest.split_once(blank) {
        Some((methods, rest)) => (Some(read_methods(methods)?), rest.trim_start_matches(blank)),
        None => (None, rest),
    };
    if rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(plain("has a blank or control character in host or path"));
    }
    if let Some((_, behind)) = rest.split_once("://") {
        return Err(("has a scheme", Some(behind.to_owned())));
    }
    let (place, rest) = read_place(rest)?;
    let (port, path) = match rest.strip_prefix(':') {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            (Some(host::port(&rest[..end]).map_err(plain)?), &rest[end..])
        }
        None => (None, rest),
    };
    let path = match path {
        "" => None,
        path => PathPattern::parse(path).map_err(plain)?,
    };
    Ok(Rule { text: text.to_owned(), deny, methods, place, port, path })
}

fn read_methods(text: &str) -> Result<Methods, Wrong> {
    if text == "*" {
        return Ok(Methods::Listed);
    }
    let mut methods = Vec::new();
    for word in text.split(',') {
        if word.is_empty() {
            return Err(("has an empty method (write them with commas and without blanks)", None));
        }
        let Some(method) = METHODS.iter().find(|method| method.eq_ignore_ascii_case(word)) else {
            return Err(("has a method that is none of GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, TRACE", None));
        };
        if !methods.contains(method) {
            methods.push(*method);
        }
    }
    Ok(Methods::These(methods))
}

/// The host or network at the beginning of `text`, and what follows.
fn read_place(text: &str) -> Result<(Place, &str), Wrong> {
    let plain = |reason| (reason, None);
    if let Some(inner) = text.strip_prefix('[') {
        let (inner, rest) = inner.split_once(']').ok_or(plain("has a bracket without its other half"))?;
        let (address, bits) = inner.split_once('/').map_or((inner, None), |(address, bits)| (address, Some(bits)));
        let Ok(address) = address.parse::<std::net::Ipv6Addr>() else {
            return Err(plain("has brackets around what is no IPv6 address"));
        };
        if address.to_ipv4_mapped().is_some() {
            return Err((
                "has an IPv4 address in the clothes of IPv6",
                Some(Host::address(address.into()).to_string()),
            ));
        }
        let (bits, rest) = match bits {
            Some(bits) => (Some(bits), rest),
            None => prefix(rest),
        };
        let net = net(IpAddr::V6(address), bits, 128)?;
        return if rest.is_empty() || rest.starts_with([':', '/']) {
            Ok((Place::Net(net), rest))
        } else {
            Err(plain("has something behind its bracket that is neither port nor path"))
        };
    }
    let slash = text.find('/').unwrap_or(text.len());
    if text[..slash].matches(':').count() > 1 {
        let address = text[..slash].parse::<std::net::Ipv6Addr>().ok();
        return Err(("has an IPv6 address without brackets", address.map(|address| format!("[{address}]"))));
    }
    let end = text[..slash].find(':').unwrap_or(slash);
    let (host, rest) = text.split_at(end);
    if host.contains('@') {
        return Err(plain("has a user, which no rule is about"));
    }
    if host == "*" {
        return Err(plain("has '*' for a host (write '*.example.org', or --net host for everything)"));
    }
    if let Some(domain) = host.strip_prefix("*.") {
        let domain = HostName::parse(domain).map_err(plain)?;
        return Ok((Place::Below(domain), rest));
    }
    if host.contains('*') {
        return Err(plain("has '*' in its host elsewhere than as '*.' at the beginning"));
    }
    Ok(match Host::parse(host).map_err(plain)? {
        Host::Name(name) => (Place::Name(name), rest),
        Host::Address(address) => {
            let (bits, rest) = prefix(rest);
            (Place::Net(net(address, bits, 32)?), rest)
        }
    })
}

/// `/BITS` at the beginning of `text`, and what follows.
fn prefix(text: &str) -> (Option<&str>, &str) {
    let Some(behind) = text.strip_prefix('/') else { return (None, text) };
    let end = behind.find([':', '/']).unwrap_or(behind.len());
    let (bits, rest) = behind.split_at(end);
    if bits.is_empty() || !bits.bytes().all(|byte| byte.is_ascii_digit()) { (None, text) } else { (Some(bits), rest) }
}

fn net(first: IpAddr, bits: Option<&str>, wide: u8) -> Result<Net, Wrong> {
    let bits = match bits {
        Some(text) => text.parse().map_err(|_| ("has a prefix length that is no number", None))?,
        None => wide,
    };
    Net::new(first, bits).map_err(|reason| {
        let meant = (bits <= wide).then(|| {
            let net = Net { first, bits };
            let low = number(first) & net.mask();
            match first {
                IpAddr::V4(_) => {
                    let low = std::net::Ipv4Addr::from_bits(u32::try_from(low).unwrap_or_default());
                    format!("{low}/{bits}")
                }
                IpAddr::V6(_) => format!("[{}]/{bits}", std::net::Ipv6Addr::from_bits(low)),
            }
        });
        (reason, meant)
    })
}

/// Method and path of a request, where they can be seen.
#[derive(Clone, Copy, Debug)]
pub struct Inside<'a> {
    /// As it was sent: methods are case-sensitive.
    pub method: &'a str,
    /// Without the query.
    pub path: &'a RequestPath,
}

/// What the rules say about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It may leave.
    Allowed(&'a Rule),
    /// It may leave if somebody looks at method and path of each request inside.
    Inspect(&'a Rule),
    /// It may not.
    Denied(Denial<'a>),
}

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial<'a> {
    /// A rule forbids it.
    Rule(&'a Rule),
    /// No rule names the host.
    Host,
    /// A rule names the host with other ports.
    Port,
    /// A rule names host and port with other methods or paths.
    Inside,
}

/// All rules of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// The rules together.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }

    /// Whether there are rules and all of them forbid, so that nothing is reached.
    #[must_use]
    pub fn only_deny(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(Rule::denies)
    }

    /// Whether a rule that allows is about one of `hosts`.
    pub fn speak_of(&self, hosts: impl IntoIterator<Item = Host>) -> bool {
        hosts.into_iter().any(|host| self.0.iter().any(|rule| !rule.deny && rule.place.covers(&host)))
    }

    /// The rules.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    /// What the rules say. Without `inside` it is a connection into which nobody looks.
    #[must_use]
    pub fn decide(&self, host: &Host, port: u16, inside: Option<&Inside>) -> Verdict<'_> {
        let covering = |rule: &&Rule| rule.covers(host, port, inside);
        let mut unseen = None;
        for rule in self.0.iter().filter(|rule| rule.deny).filter(covering) {
            if inside.is_some() || !rule.looks_inside() {
                return Verdict::Denied(Denial::Rule(rule));
            }
            unseen = Some(rule);
        }
        let allows = || self.0.iter().filter(|rule| !rule.deny);
        match (allows().find(covering), unseen) {
            (Some(rule), None) => return Verdict::Allowed(rule),
            (Some(rule), Some(_)) => return Verdict::Inspect(rule),
            (None, _) => {}
        }
        let mut there = allows().filter(|rule| rule.place.covers(host)).peekable();
        if there.peek().is_none() {
            return Verdict::Denied(Denial::Host);
        }
        match there.find(|rule| rule.covers_port(port)) {
            None => Verdict::Denied(Denial::Port),
            Some(_) if inside.is_some() => Verdict::Denied(Denial::Inside),
            Some(rule) => Verdict::Inspect(rule),
        }
    }

    /// The rule that forbids an address that a name led to.
    #[must_use]
    pub fn forbids(&self, address: IpAddr, port: u16, inside: Option<&Inside>) -> Option<&Rule> {
        let host = Host::address(address);
        self.0.iter().find(|rule| rule.deny && rule.covers(&host, port, inside))
    }

    /// The rule that grants an address which names alone do not lead to.
    #[must_use]
    pub fn grants(&self, address: IpAddr, port: u16, inside: Option<&Inside>) -> Option<&Rule> {
        let host = Host::address(address);
        self.0.iter().find(|rule| !rule.deny && rule.covers(&host, port, inside))
    }
}

#[cfg(test)]
mod tests;
