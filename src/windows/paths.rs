//! Paths as they were written, made absolute as text: nothing is looked at, and no link is followed.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf, Prefix};

use crate::egress::credentials::Source;
use crate::egress::upstream;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::plan::env::windows::is_absolute;
use crate::policy::{Policy, Upstream};
use crate::sys::process::describe;

/// `path` made absolute: `~` is the user's directory, and what is relative begins at `base`.
pub fn expand(path: &Path, host: &Host, base: Option<&Path>) -> Result<PathBuf> {
    let refuse =
        |reason: &str| Error::text(Kind::Policy, format!("cannot resolve path '{}': {reason}", path.display()));
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes == b"~" || bytes.starts_with(b"~/") || bytes.starts_with(b"~\\") {
        let home = host.home.as_ref().ok_or_else(|| refuse("there is no home directory"))?;
        return Ok(plain(&home.join(path.components().skip(1).collect::<PathBuf>())));
    }
    if let Some(Component::Prefix(prefix)) = path.components().next() {
        match prefix.kind() {
            Prefix::Disk(_) if !is_absolute(path.as_os_str()) => {
                return Err(refuse("it depends on the current directory of a drive"));
            }
            Prefix::Disk(_) | Prefix::UNC(..) => {}
            Prefix::Verbatim(_) | Prefix::VerbatimUNC(..) | Prefix::VerbatimDisk(_) | Prefix::DeviceNS(_) => {
                return Err(refuse("it is the name of a device"));
            }
        }
    }
    if path.is_absolute() {
        return Ok(plain(path));
    }
    let base = base.ok_or_else(|| refuse("there is no working directory"))?;
    // `\x` keeps the drive.
    Ok(plain(&base.join(path)))
}

/// Without `.`, `..` and separators at the end: the system takes them out as text as well.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                // The root stays.
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

/// `policy` with every path made absolute against the working directory of its target.
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
        *path = expand(path, host, Some(&base))?;
    }
    for credential in &mut policy.egress.credentials {
        if let Source::File(path) = &credential.spec.source {
            credential.spec = credential.spec.with_file(expand(path, host, Some(&base))?);
        }
    }
    if let Some(Upstream { spec: upstream::Spec::File(path), .. }) = &mut policy.egress.upstream {
        *path = expand(path, host, Some(&base))?;
    }
    Ok(policy)
}

/// Where the target starts.
pub fn workdir(policy: &Policy, host: &Host) -> Result<PathBuf> {
    let cwd = host
        .cwd
        .as_ref()
        .map_err(|error| Error::text(Kind::Policy, format!("cannot find the working directory: {}", describe(error))));
    let written = match &policy.workdir {
        None => cwd?.clone(),
        Some(path) => expand(path, host, cwd.ok().map(PathBuf::as_path))?,
    };
    let refuse = |reason: &str| {
        Error::text(Kind::Policy, format!("cannot start in directory '{}': {reason}", written.display()))
    };
    let found = std::fs::metadata(&written).map_err(|error| refuse(&describe(&error)))?;
    if found.is_dir() { Ok(written) } else { Err(refuse("not a directory")) }
}

/// The name of a file beside `path`, for what is not complete.
#[must_use]
pub fn beside(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{number}.tmp"));
    path.with_file_name(name)
}

/// What was said about a path.
pub mod links {
    use std::io;
    use std::path::Path;

    use crate::sys::process::describe;

    /// The link on the way of a path that leads nowhere: not looked for here.
    #[must_use]
    pub fn dangling(_: &Path) -> Option<String> {
        None
    }

    /// What the system said.
    #[must_use]
    pub fn reason(_: &Path, error: &io::Error) -> String {
        describe(error)
    }
}
