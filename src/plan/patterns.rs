//! Paths that look like patterns and are none: whoever quotes `*.key` may expect us to expand what the shell did not.
//!
//! Says so where nothing of that very name exists; forbids nothing, since such names are allowed.

use std::ffi::OsStr;
use std::path::Path;

use super::expand;
use crate::error::Error;
use crate::host::Host;
use crate::policy::{Missing, Origin, Policy};

/// What stands for something else in a shell.
const SIGNS: &[u8] = b"*?[";

/// What is said of such a path.
const REASON: &str = "nothing in a path is a pattern: '*', '?' and '[' stand for themselves, so name each path";

/// Whether `path` would be a pattern in a shell, and nothing has that name.
fn is_unexpanded(path: &Path, host: &Host, workdir: &Path) -> bool {
    let has_sign = |text: &OsStr| text.as_encoded_bytes().iter().any(|byte| SIGNS.contains(byte));
    has_sign(path.as_os_str())
        && expand(path, host, Some(workdir)).is_ok_and(|path| {
            std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        })
}

/// Every path of the policy with whoever wants it, and whether the run fails without.
fn paths(policy: &Policy) -> impl Iterator<Item = (&Path, &Origin, bool)> {
    let grants = policy.files.grants.iter();
    let grants = grants.map(|grant| (grant.path.as_path(), &grant.origin, grant.missing == Missing::Refuse));
    let sockets = policy.allow_sockets.iter().map(|rule| (rule.path.as_path(), &rule.origin, true));
    let rules = policy.files.masks.iter().chain(&policy.files.protects).chain(&policy.deny_sockets);
    grants.chain(sockets).chain(rules.map(|rule| (rule.path.as_path(), &rule.origin, false)))
}

/// A warning for each that changes nothing, or makes something else than what was meant.
pub(super) fn warnings(policy: &Policy, host: &Host, workdir: &Path) -> Vec<String> {
    let silent = paths(policy).filter(|(path, _, needed)| !needed && is_unexpanded(path, host, workdir));
    silent.map(|(path, origin, _)| format!("'{}' ({origin}) does not exist: {REASON}", path.display())).collect()
}

/// The same as a remedy for the failure of one that is needed.
pub(super) fn hint(error: Error, policy: &Policy, host: &Host, workdir: &Path) -> Error {
    let text = error.to_string();
    let mut needed = paths(policy).filter(|(.., needed)| *needed).map(|(path, ..)| path);
    let named =
        needed.any(|path| text.contains(&format!("'{}'", path.display())) && is_unexpanded(path, host, workdir));
    if named { error.hint(REASON) } else { error }
}
