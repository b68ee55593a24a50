//! Protections that a policy needs and a backend does not give.

use std::borrow::Cow;

use crate::backend::Backend;
use crate::diagnose;
use crate::error::{Error, Kind, Result};
use crate::policy::hidden::Shown;
use crate::policy::protection::Strength;
use crate::policy::{Network, Policy, Protection};

/// A protection that is needed and not enforced, accepted by name or given up with the default it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Gap {
    /// Its word.
    pub protection: &'static str,
    /// What is missing.
    pub missing: String,
}

/// Whether the policy needs `protection` at all.
fn needed(policy: &Policy, protection: Protection) -> bool {
    match protection {
        Protection::Network => policy.network == Network::Off,
        Protection::Masks => {
            !policy.files.masks.is_empty()
                || policy.hidden.shown != Shown::All
                || policy.egress.secret_files().next().is_some()
        }
        Protection::FilesRead
        | Protection::FilesWrite
        | Protection::Sockets
        | Protection::Processes
        | Protection::Privileges
        | Protection::Environment => true,
        Protection::Memory => policy.limits.memory.is_some(),
        Protection::Cpu => policy.limits.cpu_time.is_some(),
        Protection::Procs => policy.limits.max_procs.is_some(),
        Protection::FileSize => policy.limits.max_file_size.is_some(),
        Protection::OpenFiles => policy.limits.max_open_files.is_some(),
        Protection::Output => policy.limits.max_output.is_some(),
        Protection::Time => policy.limits.timeout.is_some(),
    }
}

/// The gaps of `backend` under `policy`, or an error that names those nobody accepted.
///
/// `lost` are protections that the backend has in general and that this host takes away, with what is lost.
///
/// `none` gives up what is only a default; what was asked for in so many words it refuses like everybody else.
pub fn gaps(policy: &Policy, backend: Backend, lost: &[(Protection, Cow<str>)]) -> Result<Vec<Gap>> {
    let mut gaps = Vec::new();
    let mut refused = Vec::new();
    for protection in Protection::ALL {
        let missing = match backend.strength(protection) {
            Strength::Enforced | Strength::Partial(_) => {
                let Some((_, missing)) = lost.iter().find(|(which, _)| *which == protection) else { continue };
                missing.to_string()
            }
            Strength::Absent => format!("{backend} does not enforce it"),
        };
        if !needed(policy, protection) {
            continue;
        }
        let accepted = policy.accepted_gaps.contains_key(&protection);
        let only_default = backend == Backend::None && !policy.asked.contains(&protection);
        if !accepted && !only_default {
            refused.push((protection, missing.clone()));
        }
        gaps.push(Gap { protection: protection.word(), missing });
    }
    if refused.is_empty() {
        return Ok(gaps);
    }
    let words: Vec<_> = refused.iter().map(|(protection, _)| protection.word()).collect();
    let reasons: Vec<_> = refused.iter().map(|(protection, missing)| format!("{protection} ({missing})")).collect();
    let error = Error::text(
        Kind::Gap,
        format!("cannot enforce what was asked for with backend '{backend}': {}", reasons.join(", ")),
    )
    .hint(format!("--allow-gap {} accepts that", words.join(",")));
    match refused.iter().find_map(|(protection, missing)| diagnose::without_group(*protection, missing)) {
        Some(remedy) => Err(error.hint(remedy)),
        None => Err(error),
    }
}
