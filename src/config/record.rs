//! The wire record of reference payloads as a layer, and a policy as a record.
//!
//! Nothing is dropped in silence: what a record asks for and nobody here does yet is refused by name, and so is what a policy
//! holds and a record has no place for.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::layer::{Layer, Set};
use super::payload::{Generation, Record};
use crate::backend::Backend;
use crate::policy::env::{EnvEntry, EnvName, EnvRule, TEMPORARY, exactly};
use crate::policy::hidden::{ALL_BUT_SECRETS, ALL_NAMES, Others, Shown};
use crate::policy::{Access, Grant, Missing, Network, NewSession, Origin, PathRule, Policy, Protection};

/// A record as a layer, and what a careful caller should hear of.
pub fn layer(record: Record) -> Result<(Layer, Vec<String>)> {
    let Record {
        generation: _,
        active,
        allow_network,
        backend_type,
        copy_on_write_namespace,
        copy_on_write_roots,
        credential_source_paths,
        cwd_allow_hidden,
        cwd_hidden_scan_max_entries,
        cwd_hidden_scan_overflow,
        cwd_hidden_scan_recursive,
        deny_unix_socket_paths,
        egress_relay_port,
        egress_socket_path,
        env_passthrough: _,
        mask_paths,
        read_roots,
        spawn_env_allowlist,
        write_files,
        write_roots,
    } = record;
    if copy_on_write_namespace.is_some() || !copy_on_write_roots.is_empty() {
        bail!("policy key 'copy_on_write_roots': copy-on-write is not available");
    }
    let mut warnings = Vec::new();
    let origin = || Origin::Payload;
    let backend = match (active, backend_type.as_str()) {
        (true, "linux_bwrap") => Backend::Bwrap,
        (true, "darwin_seatbelt") => Backend::Seatbelt,
        (true, "windows_jobobject") => Backend::JobObject,
        (false, "none") => Backend::None,
        (_, other) => bail!("policy key 'backend_type': backend '{other}' is not available on this platform"),
    };
    let rules = |paths: Option<Vec<PathBuf>>| {
        paths.into_iter().flatten().map(|path| PathRule { path, origin: origin() }).collect::<Vec<_>>()
    };
    let grants = |paths: Vec<PathBuf>, access, file_only| {
        paths.into_iter().map(move |path| Grant { path, access, missing: Missing::Refuse, file_only, origin: origin() })
    };
    let mut layer = Layer {
        backends: Some(Set::new(vec![backend], origin())),
        network: Some(Set::new(if allow_network { Network::Host } else { Network::Off }, origin())),
        egress_socket: egress_socket_path.map(|path| Set::new(path, origin())),
        egress_port: egress_relay_port.map(|port| Set::new(port, origin())),
        masks: rules(mask_paths),
        deny_sockets: rules(deny_unix_socket_paths),
        grants: grants(read_roots.unwrap_or_default(), Access::Read, false)
            .chain(grants(write_roots, Access::Write, false))
            .chain(grants(write_files, Access::Write, true))
            .collect(),
        hidden_max_entries: Some(Set::new(cwd_hidden_scan_max_entries.get(), origin())),
        hidden_overflow: Some(Set::new(cwd_hidden_scan_overflow, origin())),
        hidden_recursive: Some(Set::new(cwd_hidden_scan_recursive, origin())),
        ..Layer::default()
    };
    layer.masks.extend(rules(credential_source_paths));
    let shown = cwd_allow_hidden.map(|names| {
        if names.iter().any(|name| name == ALL_NAMES) { Shown::All } else { Shown::only(names.into_iter().collect()) }
    });
    layer.hidden_shown = shown.map(|shown| Set::new(shown, origin()));
    match spawn_env_allowlist {
        None => warnings
            .push("the payload names no variables (spawn_env_allowlist is null): the default list passes".into()),
        Some(names) => {
            layer.env_defaults = Some(Set::new(false, origin()));
            let names = names.iter().map(|name| EnvName::parse(name).context("policy key 'spawn_env_allowlist'"));
            layer.env = EnvEntry::all(exactly(names.collect::<Result<Vec<_>>>()?), &origin()).collect();
        }
    }
    Ok((layer, warnings))
}

/// A policy as a record; its paths must be absolute. An error names what a record has no place for.
pub fn record(policy: &Policy) -> Result<Record> {
    let Policy {
        backends,
        image,
        accepted_gaps,
        asked,
        files,
        network,
        egress,
        allow_sockets,
        deny_sockets,
        env,
        workdir,
        keep_fds,
        keep_jobserver,
        new_session,
        kill_after,
        hidden,
        limits,
        origins: _,
        read_from: _,
    } = policy;
    for (holds, key) in limits.settings().into_iter().chain([
        (image.is_some(), "image"),
        (!accepted_gaps.is_empty(), "allow_gaps"),
        (!files.protects.is_empty(), "protect_paths"),
        (files.tmp_size.is_some(), "tmp_size"),
        (!allow_sockets.is_empty(), "allow_unix_socket_paths"),
        (!egress.hosts.is_empty(), "allow_hosts"),
        (!egress.credentials.is_empty(), "credentials"),
        (egress.upstream.is_some(), "upstream_proxy"),
        (workdir.is_some(), "workdir"),
        (!keep_fds.is_empty(), "keep_fds"),
        (*keep_jobserver, "keep_jobserver"),
        (*new_session != NewSession::Auto, "new_session"),
        (*kill_after != super::layer::DEFAULT_KILL_AFTER, "kill_after"),
        (files.grants.iter().any(|grant| grant.missing == Missing::Create), "write_roots_create"),
        (files.grants.iter().any(|grant| grant.missing == Missing::Skip), "read_roots_optional"),
    ]) {
        if holds {
            bail!("a payload has no place for '{key}'");
        }
    }
    let (active, backend_type) = match backends.list[..] {
        [Backend::Bwrap] => (true, "linux_bwrap"),
        [Backend::Seatbelt] => (true, "darwin_seatbelt"),
        [Backend::JobObject] => (true, "windows_jobobject"),
        // The first of them: whoever reads the record back gets no less.
        _ if backends.list == Backend::AUTO => (true, "linux_bwrap"),
        [Backend::None] => (false, "none"),
        [one] => bail!("a payload has no place for the backend '{one}'"),
        _ => bail!("a payload has no place for a list of backends"),
    };
    if !active && *network == Network::Off && !asked.contains(&Protection::Network) {
        // The record would ask for what was only a default, and `none` refuses what is asked for.
        bail!(
            "a payload has no place for a network that nobody decided about and 'none' leaves on: --net host decides"
        );
    }
    let paths = |rules: &[PathRule]| Some(rules.iter().map(|rule| rule.path.clone()).collect::<Vec<_>>());
    let granted = |access, file_only| {
        let held = files.grants.iter().filter(move |grant| grant.access == access && grant.file_only == file_only);
        held.map(|grant| grant.path.clone()).collect::<Vec<_>>()
    };
    Ok(Record {
        generation: Generation::Sixteen,
        active,
        allow_network: *network == Network::Host,
        backend_type: backend_type.into(),
        copy_on_write_namespace: None,
        copy_on_write_roots: Vec::new(),
        credential_source_paths: None,
        cwd_allow_hidden: match &hidden.shown {
            Shown::All => Some(vec![ALL_NAMES.into()]),
            Shown::Names(names) if names.counts_alone() => Some(names.listed.iter().cloned().collect()),
            Shown::Names(names) if names.others == Others::AllButSecrets => {
                bail!("a payload has no place for '{ALL_BUT_SECRETS}' among hidden names")
            }
            Shown::Names(names) if names.listed.is_empty() => None,
            Shown::Names(_) => bail!("a payload has no place for hidden names beside the default list"),
        },
        cwd_hidden_scan_max_entries: NonZero::new(hidden.max_entries).unwrap_or(NonZero::<u64>::MIN),
        cwd_hidden_scan_overflow: hidden.overflow,
        cwd_hidden_scan_recursive: hidden.recursive,
        deny_unix_socket_paths: paths(deny_sockets),
        egress_relay_port: egress.port,
        egress_socket_path: egress.socket.clone(),
        env_passthrough: None,
        mask_paths: paths(&files.masks),
        read_roots: Some(granted(Access::Read, false)),
        spawn_env_allowlist: allowlist(env)?,
        write_files: granted(Access::Write, true),
        write_roots: granted(Access::Write, false),
    })
}

/// The names that pass, or `None` for the default list.
fn allowlist(env: &crate::policy::EnvPolicy) -> Result<Option<Vec<String>>> {
    if env.defaults && env.rules.is_empty() {
        return Ok(None);
    }
    if env.defaults {
        bail!("a payload has no place for variables beside the default list");
    }
    let mut names = BTreeSet::new();
    for entry in &env.rules {
        match &entry.rule {
            EnvRule::Pass(name) => names.insert(name.as_str().to_owned()),
            EnvRule::PassPrefix(prefix) => bail!("a payload has no place for the prefix '{prefix}*'"),
            EnvRule::Set(name, _) => bail!("a payload has no place for a value of '{name}'"),
        };
    }
    if TEMPORARY.iter().any(|name| !names.remove(*name)) {
        bail!("a payload has no place for an environment without TMPDIR");
    }
    Ok(Some(names.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::super::{merge, payload};
    use super::*;

    #[test]
    fn a_record_survives_the_policy() {
        let text = "{\"active\":true,\"allow_network\":false,\"backend_type\":\"linux_bwrap\",\
            \"cwd_allow_hidden\":[\".git\"],\"cwd_hidden_scan_max_entries\":7,\"cwd_hidden_scan_overflow\":\"error\",\
            \"cwd_hidden_scan_recursive\":true,\"deny_unix_socket_paths\":[\"/s\"],\"egress_relay_port\":null,\
            \"egress_socket_path\":null,\"env_passthrough\":null,\"mask_paths\":[\"/m\"],\"read_roots\":[\"/r\"],\
            \"spawn_env_allowlist\":[\"HOME\",\"PATH\"],\"write_files\":[\"/f\"],\"write_roots\":[\"/w\"]}";
        let read = payload::decode_json(text.as_bytes()).unwrap();
        let (layer, warnings) = layer(read).unwrap();
        assert!(warnings.is_empty());
        let again = record(&merge([layer])).unwrap();
        assert_eq!(String::from_utf8(payload::encode_json(&again)).unwrap(), text);
    }
}
