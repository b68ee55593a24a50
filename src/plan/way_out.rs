//! The way out of a network that is off: a port that leads to a proxy, inside or, where the target has no network of its own, on this
//! host.
//!
//! Looks at the socket of somebody else's proxy; everything else is a matter of the policy alone.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::build::expand;
use super::links::reason;
use super::reach::Scratch;
use super::resolve::Lost;
use super::view::{self, View};
use crate::backend::Backend;
use crate::egress::credentials::Spec;
use crate::egress::host;
use crate::egress::rules::{Rule, Rules};
use crate::egress::token::Token;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::policy::{Credential, Egress, Origin, Policy, Protection, Upstream};
use crate::sys::landlock;
use crate::sys::process::describe;

/// The port inside on which a proxy of our own listens: in a network that was just made it is free.
pub const PORT: u16 = 3128;

/// The longest path that a socket can be reached by.
pub const PATH_MAX: usize = 107;

/// A port and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayOut {
    /// Where the target asks.
    pub entry: Entry,
    /// Who is at the other end.
    pub to: To,
    /// The file inside with what the target is to trust, where connections are looked into.
    pub trust: Option<PathBuf>,
}

/// A port of 127.0.0.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nobody outside reaches it.
    Inside(u16),
    /// One of this host, to which everybody on it can connect: only who knows the word is served.
    OfHost {
        /// Taken before there is a plan; `None` where nothing is started, and what is printed has [`NO_PORT`] in its place.
        port: Option<u16>,
        /// What the target says, and nobody else knows.
        token: Token,
    },
}

/// Stands for a port that nobody has taken.
pub const NO_PORT: &str = "{port}";

impl Entry {
    /// The number, as text.
    #[must_use]
    pub fn number(&self) -> String {
        match self {
            Self::Inside(port) | Self::OfHost { port: Some(port), .. } => port.to_string(),
            Self::OfHost { port: None, .. } => NO_PORT.to_owned(),
        }
    }

    /// What has to be said there first.
    #[must_use]
    pub fn token(&self) -> Option<&Token> {
        match self {
            Self::Inside(_) => None,
            Self::OfHost { token, .. } => Some(token),
        }
    }
}

/// Who is at the other end of a way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// A proxy of our own.
    Proxy(Filter),
    /// Whoever listens on this socket.
    Socket(PathBuf),
}

/// What a proxy of our own does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Which requests it passes on.
    pub rules: Rules,
    /// What it adds to them.
    pub added: Vec<Added>,
    /// The proxy through which it does.
    pub upstream: Option<Upstream>,
}

/// A secret that is added to requests, and what the target has instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Where it is and what it is for.
    pub spec: Spec,
    /// Who wants it.
    pub origin: Origin,
    /// Another one in each run.
    pub placeholder: String,
}

impl Filter {
    /// Whether it has to look into encrypted connections.
    #[must_use]
    pub fn looks_inside(&self) -> bool {
        !self.added.is_empty() || self.rules.iter().any(Rule::looks_inside)
    }
}

impl WayOut {
    /// Whether somebody looks into encrypted connections.
    #[must_use]
    pub fn looks_inside(&self) -> bool {
        match &self.to {
            To::Proxy(filter) => cfg!(feature = "intercept") && filter.looks_inside(),
            To::Socket(_) => false,
        }
    }

    /// Variables that hold placeholders.
    pub fn placeholders(&self) -> impl Iterator<Item = (&str, &str)> {
        let added = match &self.to {
            To::Proxy(filter) => filter.added.as_slice(),
            To::Socket(_) => &[],
        };
        added.iter().flat_map(|added| added.spec.variables().into_iter().map(|name| (name, added.placeholder.as_str())))
    }

    /// What explains why something is not reached.
    #[must_use]
    pub fn note(&self) -> String {
        format!(
            "nothing is reached but by the proxy at 127.0.0.1:{}, to which HTTP_PROXY and the like lead; what ignores these \
             variables fails",
            self.entry.number()
        )
    }

    /// Whether a rule is about a loopback address of the host. Programs inside do not ask a proxy for one, unless they are told to.
    #[must_use]
    pub fn serves_loopback(&self) -> bool {
        match &self.to {
            To::Proxy(Filter { rules, .. }) => {
                let own = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].map(host::Host::address);
                rules.speak_of(own.into_iter().chain(host::Host::parse("localhost")))
            }
            To::Socket(_) => false,
        }
    }
}

/// The way out that `policy` asks for. Where `backend` has none, that is among what is `lost`. `taken` is one of this host, for
/// those under which the target has no other.
pub fn find(
    policy: &Policy,
    host: &Host,
    backend: Backend,
    taken: Option<u16>,
    lost: &mut Lost,
) -> Result<Option<WayOut>> {
    let Egress { hosts, credentials, upstream, socket, port } = &policy.egress;
    let refuse = |text: &str| Err(Error::text(Kind::Policy, text));
    if let Some(Upstream { origin, .. }) = upstream.as_ref().filter(|_| hosts.is_empty() || socket.is_some()) {
        let text =
            format!("cannot use an upstream proxy ({origin}) without the proxy of --allow-host: only that asks it");
        return refuse(&text);
    }
    let way = match (hosts.is_empty(), socket, port) {
        (true, None, None) if credentials.is_empty() => return Ok(None),
        (true, ..) if !credentials.is_empty() => {
            return refuse("cannot use a credential without the proxy of --allow-host: only that adds it to requests");
        }
        (true, None, None) => return Ok(None),
        (false, None, None) => {
            let rules = Rules::new(hosts.iter().map(|host| host.rule.clone()).collect());
            if rules.only_deny() {
                return refuse("cannot let requests leave: every rule of --allow-host forbids, and none allows");
            }
            if cfg!(not(feature = "proxy")) {
                return refuse("cannot let requests leave (--allow-host): this build has no proxy");
            }
            // What a name leads to is known to that one alone.
            if upstream.is_some()
                && let Some(rule) = rules.iter().find(|rule| rule.forbids_addresses())
            {
                let missing = format!("the rule '{rule}' does not hold for names: the upstream proxy resolves them");
                lost.push((Protection::Network, missing.into()));
            }
            let added = added(credentials, &rules)?;
            WayOut {
                entry: entry(backend, taken)?,
                to: To::Proxy(Filter { rules, added, upstream: upstream.clone() }),
                trust: None,
            }
        }
        (false, ..) => {
            return refuse("cannot use two proxies: --allow-host starts one, and --egress-socket names another");
        }
        (true, Some(_), None) => return refuse("cannot use the proxy of --egress-socket: --egress-port is missing"),
        (true, None, Some(_)) => return refuse("cannot listen on --egress-port: --egress-socket is missing"),
        (true, Some(path), Some(port)) => {
            WayOut { entry: Entry::Inside(*port), to: To::Socket(socket_at(path, host)?), trust: None }
        }
    };
    match backend {
        Backend::Bwrap | Backend::Namespace | Backend::Container(_) => Ok(Some(way)),
        Backend::Landlock if landlock::binds_ports(landlock::version()) => Ok(Some(way)),
        Backend::Seatbelt if matches!(way.to, To::Proxy(_)) => Ok(Some(way)),
        Backend::Seatbelt => {
            lost.push((
                Protection::Network,
                "--egress-port would be a port of this host, where whoever connects would be led to the proxy of \
                 --egress-socket: what is said there cannot show who says it"
                    .into(),
            ));
            Ok(None)
        }
        Backend::Landlock | Backend::JobObject | Backend::None => {
            // The command would have no placeholder, and what has the secret could be anywhere.
            if let Some(Credential { spec, origin }) = credentials.first() {
                let text = format!(
                    "cannot use the credential for '{}' ({origin}) under backend '{backend}': nobody there adds it to requests",
                    spec.host
                );
                return Err(Error::text(Kind::Backend, text));
            }
            let old = if backend == Backend::Landlock { " before Landlock ABI 4 (Linux 6.7)" } else { "" };
            lost.push((
                Protection::Network,
                format!("requests are not filtered under backend '{backend}'{old}").into(),
            ));
            Ok(None)
        }
    }
}

/// Where the target asks a proxy of ours.
fn entry(backend: Backend, port: Option<u16>) -> Result<Entry> {
    if backend != Backend::Seatbelt {
        return Ok(Entry::Inside(PORT));
    }
    let token = Token::random().map_err(|error| {
        let text = format!("cannot let requests leave (--allow-host): {}", describe(&error));
        Error::text(Kind::Backend, text)
    })?;
    Ok(Entry::OfHost { port, token })
}

/// What is added to requests: each to hosts that a rule lets them reach, and nothing in the place of something else.
fn added(credentials: &[Credential], rules: &Rules) -> Result<Vec<Added>> {
    let refuse = |spec: &Spec, origin: &Origin, reason: &str| {
        Error::text(Kind::Policy, format!("cannot use the credential for '{}' ({origin}): {reason}", spec.host))
    };
    let mut added: Vec<Added> = Vec::new();
    for Credential { spec, origin } in credentials {
        if cfg!(not(feature = "intercept")) {
            return Err(refuse(spec, origin, "this build cannot look into TLS"));
        }
        if !rules.speak_of(spec.hosts()) {
            let error = refuse(spec, origin, "no rule lets requests reach that host");
            return Err(error.hint(format!("--allow-host {}", spec.host)));
        }
        let hosts = spec.hosts();
        let same_field = |other: &&Added| {
            other.spec.field.eq_ignore_ascii_case(&spec.field)
                && other.spec.hosts().iter().any(|host| hosts.contains(host))
        };
        if added.iter().any(|other| same_field(&other)) {
            return Err(refuse(
                spec,
                origin,
                &format!("another one has the same field '{}' of its requests", spec.field),
            ));
        }
        let variables = spec.variables();
        let held =
            |other: &Added| other.spec.variables().into_iter().find(|name| variables.contains(name)).map(str::to_owned);
        if let Some(name) = added.iter().find_map(held) {
            let error = refuse(spec, origin, &format!("another one has its placeholder in the variable '{name}'"));
            return Err(error.hint("'as=NAME' names another variable"));
        }
        let placeholder = placeholder().map_err(|error| refuse(spec, origin, &describe(&error)))?;
        added.push(Added { spec: spec.clone(), origin: origin.clone(), placeholder });
    }
    Ok(added)
}

/// Text that nobody can guess, and that is found in nothing else.
fn placeholder() -> std::io::Result<String> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold("oa_cred_".to_owned(), |text, byte| text + &format!("{byte:02x}")))
}

/// Where the file with certificates lies inside: in a directory that ends with the run.
pub(super) fn place_for_trust(view: &View, scratch: Option<&Scratch>) -> Result<PathBuf> {
    const NAME: &str = ".sandbox-run-ca.pem";
    if let Some(scratch) = scratch {
        return Ok(scratch.tmp().join(NAME));
    }
    let private = |place: &&Path| matches!(view.decides(place), Some((at, view::Rule::Own(_))) if at == *place);
    // Where nothing is mounted, it is elsewhere.
    let places = [Path::new("/tmp"), Path::new("/dev/shm")].into_iter().chain(view.own(view::Own::Shared));
    let place = places.into_iter().find(private);
    place.map(|place| place.join(NAME)).ok_or_else(|| {
        let text =
            "cannot look into connections: /tmp and /dev/shm are the host's, and certificates need a private place";
        Error::text(Kind::Policy, text)
    })
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
