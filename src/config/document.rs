//! The one document of settings: what a policy file or a profile says, every key optional.
//!
//! Pure, and knows neither TOML nor JSON: `file` reads one, `print` writes one. Each field has the name of its key; what a
//! key means and what holds without it is in the table of [`fields`](super::fields).

mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::layer::{DEFAULT_KILL_AFTER, Layer, Set};
use crate::backend::Backend;
use crate::egress::credentials::Spec;
use crate::egress::rules::Rule;
use crate::egress::upstream;
use crate::policy::env::{EnvName, EnvRule, exactly};
use crate::policy::hidden::{
    ALL_BUT_SECRETS, ALL_NAMES, DEFAULT_MAX_ENTRIES, DEFAULT_NAMES, Names, Others, Overflow, Shown, is_hidden,
};
use crate::policy::limits::{Limits, OutputOverflow};
use crate::policy::{
    Access, Credential, Egress, EnvEntry, EnvPolicy, FileRules, Grant, Hidden, HostRule, ImageName, Missing, Network,
    NewSession, Origin, PathRule, Policy, Protection,
};

pub(super) use value::{AUTO, SESSIONS};

/// How text begins that stands for bytes in standard base64.
pub(super) const BASE64: &str = "base64:";

/// What a policy file says. Paths are as written: `~` and relative ones are resolved where options are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Document {
    /// Profiles beneath this document, lowest first.
    #[serde(deserialize_with = "value::list")]
    pub extends: Vec<String>,
    /// Backends to try, in order.
    #[serde(deserialize_with = "value::one")]
    pub backend_type: Option<Vec<Backend>>,
    /// Image of a container.
    #[serde(deserialize_with = "value::one")]
    pub image: Option<ImageName>,
    /// Protections that may be missing.
    #[serde(deserialize_with = "value::list")]
    pub allow_gaps: BTreeSet<Protection>,
    /// Visible and read-only.
    #[serde(deserialize_with = "value::list")]
    pub read_roots: Vec<PathBuf>,
    /// The same where it exists.
    #[serde(deserialize_with = "value::list")]
    pub read_roots_optional: Vec<PathBuf>,
    /// Visible and writable.
    #[serde(deserialize_with = "value::list")]
    pub write_roots: Vec<PathBuf>,
    /// The same, made as directories where they are missing.
    #[serde(deserialize_with = "value::list")]
    pub write_roots_create: Vec<PathBuf>,
    /// Visible and writable where they exist.
    #[serde(deserialize_with = "value::list")]
    pub write_roots_optional: Vec<PathBuf>,
    /// Single files that can be written.
    #[serde(deserialize_with = "value::list")]
    pub write_files: Vec<PathBuf>,
    /// Whether the `write_roots` count as `write_roots_create`.
    #[serde(deserialize_with = "value::flag")]
    pub create_missing: Option<bool>,
    /// Hidden.
    #[serde(deserialize_with = "value::list")]
    pub mask_paths: Vec<PathBuf>,
    /// Not writable inside a write grant.
    #[serde(deserialize_with = "value::list")]
    pub protect_paths: Vec<PathBuf>,
    /// Sockets that can be used.
    #[serde(deserialize_with = "value::list")]
    pub allow_unix_socket_paths: Vec<PathBuf>,
    /// Sockets that cannot be used.
    #[serde(deserialize_with = "value::list")]
    pub deny_unix_socket_paths: Vec<PathBuf>,
    /// Names that begin with a dot and stay visible; `*` among them means all, two other words many.
    #[serde(deserialize_with = "value::list_or_none")]
    pub cwd_allow_hidden: Option<Vec<OsString>>,
    /// The most entries that the scan for hidden names looks at.
    #[serde(deserialize_with = "value::count")]
    pub cwd_hidden_scan_max_entries: Option<u64>,
    /// What happens at that number.
    #[serde(deserialize_with = "value::one")]
    pub cwd_hidden_scan_overflow: Option<Overflow>,
    /// Whether the scan goes below the top of each place.
    #[serde(deserialize_with = "value::flag")]
    pub cwd_hidden_scan_recursive: Option<bool>,
    /// Working directory.
    #[serde(deserialize_with = "value::one")]
    pub workdir: Option<PathBuf>,
    /// Size of each private directory, in bytes.
    #[serde(deserialize_with = "value::tmp_size")]
    pub tmp_size: Option<u64>,
    /// Whether the target has the host's network.
    #[serde(deserialize_with = "value::flag")]
    pub allow_network: Option<bool>,
    /// Requests that a proxy passes on.
    #[serde(deserialize_with = "value::list")]
    pub allow_hosts: Vec<Rule>,
    /// Secrets that it adds to them.
    #[serde(deserialize_with = "value::list")]
    pub credentials: Vec<Spec>,
    /// The proxy through which they leave.
    #[serde(deserialize_with = "value::one")]
    pub upstream_proxy: Option<upstream::Spec>,
    /// The socket of a proxy that somebody else runs.
    #[serde(deserialize_with = "value::one")]
    pub egress_socket_path: Option<PathBuf>,
    /// The port inside by which it is reached.
    #[serde(deserialize_with = "value::port")]
    pub egress_relay_port: Option<u16>,
    /// Whether the default list of variables passes.
    #[serde(deserialize_with = "value::flag")]
    pub env_default: Option<bool>,
    /// Rules about variables, in order, before those of `env_set`.
    #[serde(deserialize_with = "value::list")]
    pub env: Vec<EnvRule>,
    /// Values of variables, each name once.
    #[serde(deserialize_with = "value::table")]
    pub env_set: Vec<(EnvName, OsString)>,
    /// The only variables that pass, before `env` and `env_set`.
    #[serde(deserialize_with = "value::list_or_none")]
    pub spawn_env_allowlist: Option<Vec<EnvName>>,
    /// Descriptors that cross.
    #[serde(deserialize_with = "value::descriptors")]
    pub keep_fds: BTreeSet<i32>,
    /// Whether the jobserver of make is passed on.
    #[serde(deserialize_with = "value::flag")]
    pub keep_jobserver: Option<bool>,
    /// Session and controlling terminal.
    #[serde(deserialize_with = "value::one")]
    pub new_session: Option<NewSession>,
    /// Wall clock; zero is none.
    #[serde(deserialize_with = "value::one")]
    pub timeout: Option<Duration>,
    /// Grace between TERM and KILL.
    #[serde(deserialize_with = "value::one")]
    pub kill_after: Option<Duration>,
    /// Memory of everything inside together, in bytes.
    #[serde(deserialize_with = "value::memory")]
    pub memory: Option<u64>,
    /// Processor time in seconds.
    #[serde(deserialize_with = "value::cpu_time")]
    pub cpu_time: Option<u64>,
    /// Processes and threads at a time.
    #[serde(deserialize_with = "value::procs")]
    pub max_procs: Option<u64>,
    /// Size of each file that is written, in bytes.
    #[serde(deserialize_with = "value::size")]
    pub max_file_size: Option<u64>,
    /// Descriptors of each process.
    #[serde(deserialize_with = "value::open_files")]
    pub max_open_files: Option<u64>,
    /// Address space of each process, in bytes.
    #[serde(deserialize_with = "value::address_space")]
    pub address_space: Option<u64>,
    /// Size of a core file, in bytes.
    #[serde(deserialize_with = "value::size")]
    pub core: Option<u64>,
    /// Standard output and standard error together, in bytes.
    #[serde(deserialize_with = "value::size")]
    pub max_output: Option<u64>,
    /// What happens at that number.
    #[serde(deserialize_with = "value::one")]
    pub output_overflow: Option<OutputOverflow>,
}

impl Document {
    /// The document as a source of settings, all of them from `origin`. Its `extends` are the caller's to look up.
    #[must_use]
    #[allow(clippy::too_many_lines, reason = "a line for each key")]
    pub fn layer(self, origin: &Origin) -> Layer {
        let Self {
            extends: _,
            backend_type,
            image,
            allow_gaps,
            read_roots,
            read_roots_optional,
            write_roots,
            write_roots_create,
            write_roots_optional,
            write_files,
            create_missing,
            mask_paths,
            protect_paths,
            allow_unix_socket_paths,
            deny_unix_socket_paths,
            cwd_allow_hidden,
            cwd_hidden_scan_max_entries,
            cwd_hidden_scan_overflow,
            cwd_hidden_scan_recursive,
            workdir,
            tmp_size,
            allow_network,
            allow_hosts,
            credentials,
            upstream_proxy,
            egress_socket_path,
            egress_relay_port,
            mut env_default,
            env,
            env_set,
            spawn_env_allowlist,
            keep_fds,
            keep_jobserver,
            new_session,
            timeout,
            kill_after,
            memory,
            cpu_time,
            max_procs,
            max_file_size,
            max_open_files,
            address_space,
            core,
            max_output,
            output_overflow,
        } = self;
        let missing = if create_missing == Some(true) { Missing::Create } else { Missing::Refuse };
        let mut grants = Vec::new();
        for (paths, access, missing, file_only) in [
            (read_roots, Access::Read, Missing::Refuse, false),
            (read_roots_optional, Access::Read, Missing::Skip, false),
            (write_roots, Access::Write, missing, false),
            (write_roots_create, Access::Write, Missing::Create, false),
            (write_roots_optional, Access::Write, Missing::Skip, false),
            (write_files, Access::Write, Missing::Refuse, true),
        ] {
            let grant = |path| Grant { path, access, missing, file_only, origin: origin.clone() };
            grants.extend(paths.into_iter().map(grant));
        }
        let mut rules = Vec::new();
        if let Some(names) = spawn_env_allowlist {
            env_default = Some(false);
            rules.extend(exactly(names));
        }
        rules.extend(env);
        rules.extend(env_set.into_iter().map(|(name, value)| EnvRule::Set(name, value)));
        let from = Source(origin);
        Layer {
            backends: from.set(backend_type),
            image: from.set(image),
            accepted_gaps: from.each(allow_gaps),
            grants,
            masks: from.rules(mask_paths),
            protects: from.rules(protect_paths),
            tmp_size: from.set(tmp_size),
            workdir: from.set(workdir),
            network: from.set(allow_network.map(|allow| if allow { Network::Host } else { Network::Off })),
            allow_hosts: allow_hosts.into_iter().map(|rule| HostRule { rule, origin: origin.clone() }).collect(),
            credentials: credentials.into_iter().map(|spec| Credential { spec, origin: origin.clone() }).collect(),
            upstream_proxy: from.set(upstream_proxy),
            egress_socket: from.set(egress_socket_path),
            egress_port: from.set(egress_relay_port),
            allow_sockets: from.rules(allow_unix_socket_paths),
            deny_sockets: from.rules(deny_unix_socket_paths),
            env: EnvEntry::all(rules, origin).collect(),
            env_defaults: from.set(env_default),
            keep_fds: from.each(keep_fds),
            keep_jobserver: from.set(keep_jobserver),
            new_session: from.set(new_session),
            timeout: from.set(timeout),
            kill_after: from.set(kill_after),
            memory: from.set(memory),
            cpu_time: from.set(cpu_time),
            max_procs: from.set(max_procs),
            max_file_size: from.set(max_file_size),
            max_open_files: from.set(max_open_files),
            address_space: from.set(address_space),
            core: from.set(core),
            max_output: from.set(max_output),
            output_overflow: from.set(output_overflow),
            hidden_shown: from.set(cwd_allow_hidden.map(Shown::of_words)),
            hidden_added: BTreeSet::new(),
            hidden_max_entries: from.set(cwd_hidden_scan_max_entries),
            hidden_overflow: from.set(cwd_hidden_scan_overflow),
            hidden_recursive: from.set(cwd_hidden_scan_recursive),
        }
    }

    /// The document that says what the policy does, and of the defaults only what nobody should have to know.
    ///
    /// A network that is off by default is written, and so counts as asked for from then on, unless `none` may run the
    /// policy: it would refuse what was only a default before. No key says that a file to write may be missing: it comes out
    /// stricter.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        let Policy {
            backends,
            image,
            accepted_gaps,
            asked,
            files: FileRules { grants, masks, protects, tmp_size },
            network,
            egress: Egress { hosts, credentials, upstream, socket, port },
            allow_sockets,
            deny_sockets,
            env: EnvPolicy { defaults, rules },
            workdir,
            keep_fds,
            keep_jobserver,
            new_session,
            kill_after,
            hidden: Hidden { shown, max_entries, overflow, recursive },
            limits,
            origins: _,
            read_from: _,
        } = policy;
        let Limits {
            timeout,
            memory,
            cpu_time,
            max_procs,
            max_file_size,
            max_open_files,
            address_space,
            core,
            max_output,
            overflow: output_overflow,
        } = limits;
        let granted =
            |key| grants.iter().filter(|grant| grant_key(grant) == key).map(|grant| grant.path.clone()).collect();
        let paths = |rules: &[PathRule]| rules.iter().map(|rule| rule.path.clone()).collect();
        let (env, env_set) = split_rules(rules);
        let decided = *network == Network::Host
            || asked.contains(&Protection::Network)
            || !backends.list.contains(&Backend::None);
        Self {
            extends: Vec::new(),
            backend_type: Some(backends.list.clone()),
            image: image.clone(),
            allow_gaps: accepted_gaps.keys().copied().collect(),
            read_roots: granted("read_roots"),
            read_roots_optional: granted("read_roots_optional"),
            write_roots: granted("write_roots"),
            write_roots_create: granted("write_roots_create"),
            write_roots_optional: granted("write_roots_optional"),
            write_files: granted("write_files"),
            create_missing: None,
            mask_paths: paths(masks),
            protect_paths: paths(protects),
            allow_unix_socket_paths: paths(allow_sockets),
            deny_unix_socket_paths: paths(deny_sockets),
            cwd_allow_hidden: match shown {
                Shown::All => Some(vec![ALL_NAMES.into()]),
                Shown::Names(_) if *shown == Shown::by_default() => None,
                Shown::Names(Names { others, listed }) => {
                    let word = match others {
                        Others::Hidden => None,
                        Others::Default => Some(DEFAULT_NAMES),
                        Others::AllButSecrets => Some(ALL_BUT_SECRETS),
                    };
                    // A payload may list more, which is not hidden anyway.
                    let listed = listed.iter().filter(|name| is_hidden(name)).cloned();
                    Some(word.map(Into::into).into_iter().chain(listed).collect())
                }
            },
            cwd_hidden_scan_max_entries: unless(*max_entries, DEFAULT_MAX_ENTRIES),
            cwd_hidden_scan_overflow: unless(*overflow, Overflow::Error),
            cwd_hidden_scan_recursive: unless(*recursive, true),
            workdir: workdir.clone(),
            tmp_size: *tmp_size,
            allow_network: decided.then_some(*network == Network::Host),
            allow_hosts: hosts.iter().map(|host| host.rule.clone()).collect(),
            credentials: credentials.iter().map(|credential| credential.spec.clone()).collect(),
            upstream_proxy: upstream.as_ref().map(|upstream| upstream.spec.clone()),
            egress_socket_path: socket.clone(),
            egress_relay_port: *port,
            env_default: unless(*defaults, true),
            env,
            env_set,
            spawn_env_allowlist: None,
            keep_fds: keep_fds.keys().copied().collect(),
            keep_jobserver: unless(*keep_jobserver, false),
            new_session: unless(*new_session, NewSession::Auto),
            timeout: *timeout,
            kill_after: unless(*kill_after, DEFAULT_KILL_AFTER),
            memory: *memory,
            cpu_time: *cpu_time,
            max_procs: *max_procs,
            max_file_size: *max_file_size,
            max_open_files: *max_open_files,
            address_space: *address_space,
            core: *core,
            max_output: *max_output,
            output_overflow: unless(*output_overflow, OutputOverflow::default()),
        }
    }
}

/// The key under which a grant is written.
pub(super) fn grant_key(grant: &Grant) -> &'static str {
    match (grant.access, grant.missing, grant.file_only) {
        (Access::Read, Missing::Skip, _) => "read_roots_optional",
        (Access::Read, Missing::Refuse | Missing::Create, _) => "read_roots",
        (Access::Write, _, true) => "write_files",
        (Access::Write, Missing::Skip, false) => "write_roots_optional",
        (Access::Write, Missing::Create, false) => "write_roots_create",
        (Access::Write, Missing::Refuse, false) => "write_roots",
    }
}

fn unless<T: Copy + PartialEq>(value: T, default: T) -> Option<T> {
    (value != default).then_some(value)
}

/// The rules as `env` and `env_set`: values at the end stand in the table, what comes before another rule keeps its place.
fn split_rules(rules: &[EnvEntry]) -> (Vec<EnvRule>, Vec<(EnvName, OsString)>) {
    let mut names = BTreeSet::new();
    let values = rules.iter().rev().map_while(|entry| match &entry.rule {
        EnvRule::Set(name, _) => Some(name),
        EnvRule::Pass(_) | EnvRule::PassPrefix(_) => None,
    });
    let count = values.take_while(|name| names.insert(*name)).count();
    let (words, values) = rules.split_at(rules.len() - count);
    let values = values.iter().filter_map(|entry| match &entry.rule {
        EnvRule::Set(name, value) => Some((name.clone(), value.clone())),
        EnvRule::Pass(_) | EnvRule::PassPrefix(_) => None,
    });
    (words.iter().map(|entry| entry.rule.clone()).collect(), values.collect())
}

/// Puts the origin to settings.
struct Source<'a>(&'a Origin);

impl Source<'_> {
    fn set<T>(&self, value: Option<T>) -> Option<Set<T>> {
        value.map(|value| Set::new(value, self.0.clone()))
    }

    fn each<T: Ord>(&self, items: BTreeSet<T>) -> BTreeMap<T, Origin> {
        items.into_iter().map(|item| (item, self.0.clone())).collect()
    }

    fn rules(&self, paths: Vec<PathBuf>) -> Vec<PathRule> {
        paths.into_iter().map(|path| PathRule { path, origin: self.0.clone() }).collect()
    }
}
