//! What the target may do: validated, independent of any backend and of this host.
//!
//! Nothing here looks at the file system or at a backend. Paths are as they were written (`~` and relative ones included);
//! `plan` resolves them once. No type has a default that grants something.

pub mod env;
pub mod fs;
pub mod hidden;
pub mod image;
pub mod limits;
pub mod protection;
pub mod units;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use env::{EnvEntry, EnvPolicy};
pub use fs::{Access, FileRules, Grant, Missing, PathRule};
pub use hidden::Hidden;
pub use image::ImageName;
pub use limits::Limits;
pub use protection::Protection;

use crate::backend::Backend;
use crate::egress::credentials::{Source, Spec};
use crate::egress::rules::Rule;
use crate::egress::upstream;

/// Where a setting came from, for messages: a person looks for the words that were typed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody asked for it; it is what happens otherwise.
    Default,
    /// A profile, by name.
    Profile(Arc<str>),
    /// A policy file, as it was named.
    File(Arc<str>),
    /// A payload.
    Payload,
    /// Typed on the command line, by this option.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Profile(name) => write!(f, "profile '{name}'"),
            Self::File(name) => f.write_str(name),
            Self::Payload => f.write_str("payload"),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// Whether the target reaches the host's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// A network of its own with nothing but a loopback interface.
    Off,
    /// The host's network as it is.
    Host,
}

/// A rule about requests that may leave, and who wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRule {
    /// The rule.
    pub rule: Rule,
    /// Where it came from.
    pub origin: Origin,
}

/// A secret that the proxy adds to requests, and who wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Where it is and what it is for.
    pub spec: Spec,
    /// Where that came from.
    pub origin: Origin,
}

/// The proxy by which requests leave, and who wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Where it is.
    pub spec: upstream::Spec,
    /// Where that came from.
    pub origin: Origin,
}

/// Ways out of a network that is off. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// Which requests a proxy of our own passes on.
    pub hosts: Vec<HostRule>,
    /// What it adds to them.
    pub credentials: Vec<Credential>,
    /// The proxy through which it passes them on.
    pub upstream: Option<Upstream>,
    /// The socket of a proxy that somebody else runs.
    pub socket: Option<PathBuf>,
    /// The port inside by which that one is reached.
    pub port: Option<u16>,
}

impl Egress {
    /// Whether there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        let Self { hosts, credentials, upstream, socket, port } = self;
        hosts.is_empty() && credentials.is_empty() && upstream.is_none() && socket.is_none() && port.is_none()
    }

    /// The files that hold secrets, as they were written, and who wants them.
    pub fn secret_files(&self) -> impl Iterator<Item = (&Path, &Origin)> {
        let of_credentials = self.credentials.iter().filter_map(|Credential { spec, origin }| match &spec.source {
            Source::File(path) => Some((path.as_path(), origin)),
            Source::Env(_) | Source::Command(_) => None,
        });
        let of_upstream = self.upstream.iter().filter_map(|Upstream { spec, origin }| match spec {
            upstream::Spec::File(path) => Some((path.as_path(), origin)),
            upstream::Spec::Url(_) | upstream::Spec::Env(_) => None,
        });
        of_credentials.chain(of_upstream)
    }
}

/// Whether the target gets a session of its own, and with it no controlling terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSession {
    /// Only when none of the three standard streams is a terminal.
    Auto,
    /// Always: `/dev/tty` cannot be opened, Ctrl-Z does not reach the target.
    Always,
    /// Never, even without a terminal on the standard streams.
    Never,
}

/// The backends to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendChoice {
    /// In this order; `auto` is already replaced by the platform's list.
    pub list: Vec<Backend>,
}

/// What one run may do. Every field is decided; see the module for what that means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Backends to try, in order.
    pub backends: BackendChoice,
    /// The image in which a container starts.
    pub image: Option<ImageName>,
    /// Protections whose absence was accepted by name, and who did.
    pub accepted_gaps: BTreeMap<Protection, Origin>,
    /// Protections that were asked for in so many words, not only by default: `none` refuses these.
    pub asked: BTreeSet<Protection>,
    /// Grants, masks and protects.
    pub files: FileRules,
    /// Host network or none.
    pub network: Network,
    /// Ways out where that is off.
    pub egress: Egress,
    /// Pathname sockets that must be reachable.
    pub allow_sockets: Vec<PathRule>,
    /// Pathname sockets that must not be reachable.
    pub deny_sockets: Vec<PathRule>,
    /// Which variables reach the target.
    pub env: EnvPolicy,
    /// Working directory as written; `None` is the caller's.
    pub workdir: Option<PathBuf>,
    /// Descriptors above 2 that cross into the target under their own numbers, and who asked.
    pub keep_fds: BTreeMap<i32, Origin>,
    /// Pass the jobserver of `make` on (`MAKEFLAGS` and what it names).
    pub keep_jobserver: bool,
    /// Session and controlling terminal.
    pub new_session: NewSession,
    /// Grace between a termination signal to us and SIGKILL to everything inside.
    pub kill_after: std::time::Duration,
    /// How much the target may use.
    pub limits: Limits,
    /// Which names that begin with a dot stay visible.
    pub hidden: Hidden,
    /// Who decided each single setting, by the key of policy files; what is missing here is the default.
    pub origins: BTreeMap<&'static str, Origin>,
    /// The file that it was read from, absolute: no part of what it says.
    pub read_from: Option<PathBuf>,
}
