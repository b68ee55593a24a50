//! A policy with every path made absolute, as it is hashed and becomes a payload: so that it means the same everywhere.
//!
//! Looks at the host's files only to take `..`, or a slash at the end, out of a path that has one.

use std::io;
use std::path::{Component, Path, PathBuf};

use super::build::expand;
use super::links::{asks_for_directory, beyond, walk};
use super::resolve::workdir;
use crate::egress::credentials::Source;
use crate::egress::upstream;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::policy::{Policy, Upstream};
use crate::sys::process::describe;

/// `policy` with `~`, relative paths and `..` resolved against the working directory in which its target would start.
pub fn absolute(policy: &Policy, host: &Host) -> Result<Policy> {
    let mut policy = policy.clone();
    let base = workdir(&policy, host)?;
    if let Some(workdir) = &mut policy.workdir {
        workdir.clone_from(&base);
    }
    let paths = policy.files.grants.iter_mut().map(|grant| &mut grant.path);
    let rules = policy.files.masks.iter_mut().chain(&mut policy.files.protects);
    let rules = rules.chain(&mut policy.allow_sockets).chain(&mut policy.deny_sockets);
    for path in paths.chain(rules.map(|rule| &mut rule.path)) {
        *path = without_dots(&expand(path, host, Some(&base))?)?;
    }
    if let Some(socket) = &mut policy.egress.socket {
        *socket = without_dots(&expand(socket, host, Some(&base))?)?;
    }
    for credential in &mut policy.egress.credentials {
        if let Source::File(path) = &credential.spec.source {
            credential.spec = credential.spec.with_file(without_dots(&expand(path, host, Some(&base))?)?);
        }
    }
    if let Some(Upstream { spec: upstream::Spec::File(path), .. }) = &mut policy.egress.upstream {
        *path = without_dots(&expand(path, host, Some(&base))?)?;
    }
    Ok(policy)
}

fn without_dots(path: &Path) -> Result<PathBuf> {
    let refuse =
        |reason: &str| Error::text(Kind::Policy, format!("cannot resolve path '{}': {reason}", path.display()));
    if !path.components().any(|part| part == Component::ParentDir) {
        // The slash at the end is not printed: what it asks for is looked at now.
        if asks_for_directory(path)
            && let Err(error) = walk(path)
            && error.kind() == io::ErrorKind::NotADirectory
        {
            return Err(refuse(&describe(&error)));
        }
        return Ok(path.components().collect());
    }
    match walk(path) {
        Ok(found) => Ok(found.end),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            beyond(path).map(|(found, rest)| found.end.join(rest)).map_err(refuse)
        }
        Err(error) => Err(refuse(&describe(&error))),
    }
}
