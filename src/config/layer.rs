//! One source of settings, and how sources become a policy.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::backend::Backend;
use crate::policy::env::EnvRule;
use crate::policy::{
    BackendChoice, EnvPolicy, FileRules, Grant, Network, NewSession, Origin, PathRule, Policy, Protection,
};

/// Settings of one source. Scalars are `None` and lists empty where the source is silent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Backends in the order to try.
    pub backends: Option<Vec<Backend>>,
    /// Gaps accepted by name.
    pub accepted_gaps: BTreeSet<Protection>,
    /// Grants; added to those of lower layers.
    pub grants: Vec<Grant>,
    /// Masks; added, never lost.
    pub masks: Vec<PathRule>,
    /// Protects; added, never lost.
    pub protects: Vec<PathRule>,
    /// Size of each private tmpfs in bytes.
    pub tmp_size: Option<u64>,
    /// Working directory as written.
    pub workdir: Option<PathBuf>,
    /// Host network or none.
    pub network: Option<Network>,
    /// Sockets to open; added.
    pub allow_sockets: Vec<PathRule>,
    /// Sockets to deny; added, never lost.
    pub deny_sockets: Vec<PathRule>,
    /// Environment rules; added, the last about a name wins.
    pub env: Vec<EnvRule>,
    /// Whether the default allowlist applies.
    pub env_defaults: Option<bool>,
    /// Descriptors to keep; added.
    pub keep_fds: BTreeSet<i32>,
    /// Pass the jobserver on.
    pub keep_jobserver: Option<bool>,
    /// Session and controlling terminal.
    pub new_session: Option<NewSession>,
    /// Grace between TERM and KILL.
    pub kill_after: Option<Duration>,
}

/// Grace between a termination signal and SIGKILL when nothing else was asked for.
pub const DEFAULT_KILL_AFTER: Duration = Duration::from_secs(2);

/// The flags over the defaults.
#[must_use]
pub fn merge(flags: Layer) -> Policy {
    let asked = asked(&flags);
    let Layer {
        backends,
        accepted_gaps,
        grants,
        masks,
        protects,
        tmp_size,
        workdir,
        network,
        allow_sockets,
        deny_sockets,
        env,
        env_defaults,
        keep_fds,
        keep_jobserver,
        new_session,
        kill_after,
    } = flags;
    let backends = match backends {
        Some(list) => BackendChoice { list, origin: Origin::Flag("--backend") },
        None => BackendChoice { list: Backend::AUTO.to_vec(), origin: Origin::Default },
    };
    Policy {
        backends,
        accepted_gaps,
        asked,
        files: FileRules { grants, masks, protects, tmp_size },
        network: network.unwrap_or(Network::Off),
        allow_sockets,
        deny_sockets,
        env: EnvPolicy { defaults: env_defaults.unwrap_or(true), rules: env },
        workdir,
        keep_fds,
        keep_jobserver: keep_jobserver.unwrap_or(false),
        new_session: new_session.unwrap_or(NewSession::Auto),
        kill_after: kill_after.unwrap_or(DEFAULT_KILL_AFTER),
    }
}

/// The protections that a source asks for in so many words.
///
/// A grant counts: whoever lists what may be read or written expects the rest to be out of reach.
fn asked(layer: &Layer) -> BTreeSet<Protection> {
    let mut asked = BTreeSet::new();
    if !layer.grants.is_empty() {
        asked.extend([Protection::FilesRead, Protection::FilesWrite]);
    }
    if !layer.masks.is_empty() {
        asked.insert(Protection::Masks);
    }
    if !layer.protects.is_empty() || layer.tmp_size.is_some() {
        asked.insert(Protection::FilesWrite);
    }
    if layer.network == Some(Network::Off) {
        asked.insert(Protection::Network);
    }
    if !layer.deny_sockets.is_empty() || !layer.allow_sockets.is_empty() {
        asked.insert(Protection::Sockets);
    }
    asked
}
