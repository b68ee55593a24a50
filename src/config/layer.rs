//! One source of settings, and how sources become a policy.
//!
//! A later source wins single settings and adds to lists. Nothing takes a mask, a protect or a denied socket away again.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::backend::Backend;
use crate::egress::upstream;
use crate::policy::hidden::{DEFAULT_MAX_ENTRIES, Hidden, Overflow, Shown};
use crate::policy::limits::OutputOverflow;
use crate::policy::{
    BackendChoice, Credential, Egress, EnvEntry, EnvPolicy, FileRules, Grant, HostRule, ImageName, Limits, Network,
    NewSession, Origin, PathRule, Policy, Protection, Upstream,
};

/// A single setting and who decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set<T> {
    /// What was decided.
    pub value: T,
    /// By whom.
    pub origin: Origin,
}

impl<T> Set<T> {
    /// A setting from a source.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}

/// Settings of one source, or of several merged. Single settings are `None` and lists empty where it is silent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Backends in the order to try.
    pub backends: Option<Set<Vec<Backend>>>,
    /// Image of a container.
    pub image: Option<Set<ImageName>>,
    /// Gaps accepted by name, and who did.
    pub accepted_gaps: BTreeMap<Protection, Origin>,
    /// Grants.
    pub grants: Vec<Grant>,
    /// Masks.
    pub masks: Vec<PathRule>,
    /// Protects.
    pub protects: Vec<PathRule>,
    /// Size of each private tmpfs in bytes.
    pub tmp_size: Option<Set<u64>>,
    /// Working directory as written.
    pub workdir: Option<Set<PathBuf>>,
    /// Host network or none.
    pub network: Option<Set<Network>>,
    /// Rules about requests that may leave.
    pub allow_hosts: Vec<HostRule>,
    /// Secrets that are added to them.
    pub credentials: Vec<Credential>,
    /// The proxy through which they leave.
    pub upstream_proxy: Option<Set<upstream::Spec>>,
    /// The socket of a proxy that somebody else runs.
    pub egress_socket: Option<Set<PathBuf>>,
    /// The port inside by which it is reached.
    pub egress_port: Option<Set<u16>>,
    /// Sockets to open.
    pub allow_sockets: Vec<PathRule>,
    /// Sockets to deny.
    pub deny_sockets: Vec<PathRule>,
    /// Environment rules; the last about a name wins.
    pub env: Vec<EnvEntry>,
    /// Whether the default allowlist applies.
    pub env_defaults: Option<Set<bool>>,
    /// Descriptors to keep, and who asked.
    pub keep_fds: BTreeMap<i32, Origin>,
    /// Pass the jobserver on.
    pub keep_jobserver: Option<Set<bool>>,
    /// Session and controlling terminal.
    pub new_session: Option<Set<NewSession>>,
    /// Grace between TERM and KILL.
    pub kill_after: Option<Set<Duration>>,
    /// Names that begin with a dot and stay visible; a later list replaces an earlier one.
    pub hidden_shown: Option<Set<Shown>>,
    /// Names that options add to that list.
    pub hidden_added: BTreeSet<OsString>,
    /// How many directory entries the scan for hidden names looks at.
    pub hidden_max_entries: Option<Set<u64>>,
    /// What happens at that number.
    pub hidden_overflow: Option<Set<Overflow>>,
    /// Whether the scan goes below the top of each place.
    pub hidden_recursive: Option<Set<bool>>,
    /// Wall clock; zero is none.
    pub timeout: Option<Set<Duration>>,
    /// Memory of the tree in bytes.
    pub memory: Option<Set<u64>>,
    /// Processor time in seconds.
    pub cpu_time: Option<Set<u64>>,
    /// Processes at a time.
    pub max_procs: Option<Set<u64>>,
    /// Size of each file in bytes.
    pub max_file_size: Option<Set<u64>>,
    /// Descriptors of each process.
    pub max_open_files: Option<Set<u64>>,
    /// Address space of each process in bytes.
    pub address_space: Option<Set<u64>>,
    /// Size of a core file in bytes.
    pub core: Option<Set<u64>>,
    /// Output in bytes.
    pub max_output: Option<Set<u64>>,
    /// What happens at that number.
    pub output_overflow: Option<Set<OutputOverflow>>,
}

/// Grace between a termination signal and SIGKILL when nothing else was asked for.
pub const DEFAULT_KILL_AFTER: Duration = Duration::from_secs(2);

impl Layer {
    /// Who wants a way out of a network that is off, if anybody does.
    #[must_use]
    pub fn way_out(&self) -> Option<&Origin> {
        let hosts = self.allow_hosts.last().map(|rule| &rule.origin);
        let credentials = self.credentials.last().map(|credential| &credential.origin);
        let upstream = self.upstream_proxy.as_ref().map(|set| &set.origin);
        let socket = self.egress_socket.as_ref().map(|set| &set.origin);
        let port = self.egress_port.as_ref().map(|set| &set.origin);
        hosts.or(credentials).or(upstream).or(socket).or(port)
    }

    /// This layer with `higher` on top of it.
    #[must_use]
    pub fn under(self, higher: Self) -> Self {
        fn added<T>(mut lower: Vec<T>, higher: Vec<T>) -> Vec<T> {
            lower.extend(higher);
            lower
        }
        Self {
            backends: higher.backends.or(self.backends),
            image: higher.image.or(self.image),
            accepted_gaps: self.accepted_gaps.into_iter().chain(higher.accepted_gaps).collect(),
            grants: added(self.grants, higher.grants),
            masks: added(self.masks, higher.masks),
            protects: added(self.protects, higher.protects),
            tmp_size: higher.tmp_size.or(self.tmp_size),
            workdir: higher.workdir.or(self.workdir),
            network: higher.network.or(self.network),
            allow_hosts: added(self.allow_hosts, higher.allow_hosts),
            credentials: added(self.credentials, higher.credentials),
            upstream_proxy: higher.upstream_proxy.or(self.upstream_proxy),
            egress_socket: higher.egress_socket.or(self.egress_socket),
            egress_port: higher.egress_port.or(self.egress_port),
            allow_sockets: added(self.allow_sockets, higher.allow_sockets),
            deny_sockets: added(self.deny_sockets, higher.deny_sockets),
            env: added(self.env, higher.env),
            env_defaults: higher.env_defaults.or(self.env_defaults),
            keep_fds: self.keep_fds.into_iter().chain(higher.keep_fds).collect(),
            keep_jobserver: higher.keep_jobserver.or(self.keep_jobserver),
            new_session: higher.new_session.or(self.new_session),
            kill_after: higher.kill_after.or(self.kill_after),
            hidden_shown: higher.hidden_shown.or(self.hidden_shown),
            hidden_added: self.hidden_added.into_iter().chain(higher.hidden_added).collect(),
            hidden_max_entries: higher.hidden_max_entries.or(self.hidden_max_entries),
            hidden_overflow: higher.hidden_overflow.or(self.hidden_overflow),
            hidden_recursive: higher.hidden_recursive.or(self.hidden_recursive),
            timeout: higher.timeout.or(self.timeout),
            memory: higher.memory.or(self.memory),
            cpu_time: higher.cpu_time.or(self.cpu_time),
            max_procs: higher.max_procs.or(self.max_procs),
            max_file_size: higher.max_file_size.or(self.max_file_size),
            max_open_files: higher.max_open_files.or(self.max_open_files),
            address_space: higher.address_space.or(self.address_space),
            core: higher.core.or(self.core),
            max_output: higher.max_output.or(self.max_output),
            output_overflow: higher.output_overflow.or(self.output_overflow),
        }
    }
}

/// The layers, lowest first, over the defaults.
#[must_use]
pub fn merge(layers: impl IntoIterator<Item = Layer>) -> Policy {
    let mut merged = layers.into_iter().fold(Layer::default(), Layer::under);
    if let Some(origin) = merged.way_out().cloned() {
        // Filtered is not beside unfiltered, whoever wanted that.
        merged.network = Some(Set::new(Network::Off, origin));
    }
    let shown = shown(merged.hidden_shown.clone(), &merged.hidden_added);
    let asked = asked(&merged, shown.as_ref());
    let upstream = merged.upstream_proxy.clone().map(|Set { value, origin }| Upstream { spec: value, origin });
    let mut origins = BTreeMap::new();
    let mut decided = Decided { origins: &mut origins };
    decided.maybe("upstream_proxy", merged.upstream_proxy);
    Policy {
        backends: BackendChoice { list: decided.or("backend_type", merged.backends, Backend::AUTO.to_vec()) },
        image: decided.maybe("image", merged.image),
        accepted_gaps: merged.accepted_gaps,
        asked,
        files: FileRules {
            grants: merged.grants,
            masks: merged.masks,
            protects: merged.protects,
            tmp_size: decided.maybe("tmp_size", merged.tmp_size),
        },
        network: decided.or("allow_network", merged.network, Network::Off),
        egress: Egress {
            hosts: merged.allow_hosts,
            credentials: merged.credentials,
            upstream,
            socket: decided.maybe("egress_socket_path", merged.egress_socket),
            port: decided.maybe("egress_relay_port", merged.egress_port),
        },
        allow_sockets: merged.allow_sockets,
        deny_sockets: merged.deny_sockets,
        env: EnvPolicy { defaults: decided.or("env_default", merged.env_defaults, true), rules: merged.env },
        workdir: decided.maybe("workdir", merged.workdir),
        keep_fds: merged.keep_fds,
        keep_jobserver: decided.or("keep_jobserver", merged.keep_jobserver, false),
        new_session: decided.or("new_session", merged.new_session, NewSession::Auto),
        kill_after: decided.or("kill_after", merged.kill_after, DEFAULT_KILL_AFTER),
        limits: Limits {
            timeout: decided.maybe("timeout", merged.timeout).filter(|timeout| !timeout.is_zero()),
            memory: decided.maybe("memory", merged.memory),
            cpu_time: decided.maybe("cpu_time", merged.cpu_time),
            max_procs: decided.maybe("max_procs", merged.max_procs),
            max_file_size: decided.maybe("max_file_size", merged.max_file_size),
            max_open_files: decided.maybe("max_open_files", merged.max_open_files),
            address_space: decided.maybe("address_space", merged.address_space),
            core: decided.maybe("core", merged.core),
            max_output: decided.maybe("max_output", merged.max_output),
            overflow: decided.or("output_overflow", merged.output_overflow, OutputOverflow::default()),
        },
        hidden: Hidden {
            shown: decided.or("cwd_allow_hidden", shown, Shown::by_default()),
            max_entries: decided.or("cwd_hidden_scan_max_entries", merged.hidden_max_entries, DEFAULT_MAX_ENTRIES),
            overflow: decided.or("cwd_hidden_scan_overflow", merged.hidden_overflow, Overflow::Error),
            recursive: decided.or("cwd_hidden_scan_recursive", merged.hidden_recursive, true),
        },
        origins,
        read_from: None,
    }
}

/// Takes settings apart into values and origins.
struct Decided<'a> {
    origins: &'a mut BTreeMap<&'static str, Origin>,
}

impl Decided<'_> {
    fn maybe<T>(&mut self, key: &'static str, set: Option<Set<T>>) -> Option<T> {
        let Set { value, origin } = set?;
        self.origins.insert(key, origin);
        Some(value)
    }

    fn or<T>(&mut self, key: &'static str, set: Option<Set<T>>, default: T) -> T {
        self.maybe(key, set).unwrap_or(default)
    }
}

/// The names of a list, and those that were typed besides.
fn shown(list: Option<Set<Shown>>, added: &BTreeSet<OsString>) -> Option<Set<Shown>> {
    if added.is_empty() {
        return list;
    }
    let list = list.map_or_else(Shown::by_default, |set| set.value);
    Some(Set::new(list.and(added), Origin::Flag("--show-hidden")))
}

/// The protections that the sources ask for in so many words.
///
/// A grant counts: whoever lists what may be read or written expects the rest to be out of reach.
fn asked(layer: &Layer, shown: Option<&Set<Shown>>) -> BTreeSet<Protection> {
    let mut asked = BTreeSet::new();
    if !layer.grants.is_empty() {
        asked.extend([Protection::FilesRead, Protection::FilesWrite]);
    }
    // More than the default list is no demand for the rest of it, whoever said so.
    let hides = shown.is_some_and(|set| matches!(&set.value, Shown::Names(names) if names.counts_alone()));
    if !layer.masks.is_empty() || hides {
        asked.insert(Protection::Masks);
    }
    if !layer.protects.is_empty() || layer.tmp_size.is_some() {
        asked.insert(Protection::FilesWrite);
    }
    if layer.network.as_ref().is_some_and(|set| set.value == Network::Off) {
        asked.insert(Protection::Network);
    }
    if !layer.deny_sockets.is_empty() || !layer.allow_sockets.is_empty() {
        asked.insert(Protection::Sockets);
    }
    let limits = [
        (layer.memory.is_some(), Protection::Memory),
        (layer.cpu_time.is_some(), Protection::Cpu),
        (layer.max_procs.is_some(), Protection::Procs),
        (layer.max_file_size.is_some(), Protection::FileSize),
        (layer.max_open_files.is_some(), Protection::OpenFiles),
        (layer.max_output.is_some(), Protection::Output),
        (layer.timeout.as_ref().is_some_and(|set| !set.value.is_zero()), Protection::Time),
    ];
    asked.extend(limits.into_iter().filter(|(set, _)| *set).map(|(_, protection)| protection));
    asked
}
