//! What a grant of a path would give away, for whoever is about to suggest one.
//!
//! Forbids nothing: a remark for people, from names and from what kind of file is there.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::host::Host;
use crate::plan::base::{self, ROOT_SECRETS, RUNTIME, SYSTEM, secret_above};
use crate::plan::links::walk;

/// Sockets whose owner does whatever is asked of it, by name.
const SOCKETS: &[(&str, &str)] = &[
    ("buildkitd.sock", POWER),
    ("containerd.sock", POWER),
    ("crio.sock", POWER),
    ("docker.sock", POWER),
    ("lxd.socket", POWER),
    ("podman.sock", POWER),
    ("libvirt-sock", POWER),
    ("private", "whoever speaks to it starts programs outside the sandbox"),
    ("bus", "whoever speaks to it starts programs outside the sandbox"),
    ("system_bus_socket", "whoever speaks to it starts programs outside the sandbox"),
    ("S.gpg-agent", "whoever speaks to it signs and decrypts with your keys"),
    ("S.gpg-agent.ssh", "whoever speaks to it logs in with your keys"),
];

const POWER: &str = "whoever speaks to it has the host, as root";

/// Files below HOME that programs outside obey or run.
const OBEYED: &[&str] = &[
    ".bash_login",
    ".bash_profile",
    ".bashrc",
    ".config/autostart",
    ".config/fish",
    ".config/git",
    ".config/systemd",
    ".gitconfig",
    ".local/bin",
    ".profile",
    ".xprofile",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "bin",
];

/// Why a grant of `path`, which names no link, should be thought about.
#[must_use]
pub fn danger(path: &Path, write: bool, host: &Host) -> Option<String> {
    let homes = host.home.iter().cloned().chain(host.listed_home());
    let homes: Vec<_> = homes.filter_map(|home| walk(&home).ok()).map(|found| found.end).collect();
    if path == Path::new("/") {
        return Some("the whole host".into());
    }
    if homes.iter().any(|home| home == path) {
        return Some("all of HOME".into());
    }
    if homes.iter().any(|home| home.starts_with(path) && home != Path::new("/")) {
        return Some("HOME lies in it".into());
    }
    let metadata = std::fs::metadata(path).ok();
    let kind = metadata.as_ref().map(std::fs::Metadata::file_type);
    if kind.is_some_and(|kind| kind.is_socket()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let agent = name.starts_with("agent.") || name.contains("ssh-agent");
        let known = SOCKETS.iter().find(|(known, _)| *known == name).map(|(_, what)| *what);
        let known = known.or(agent.then_some("whoever speaks to it logs in with your keys"));
        return Some(known.unwrap_or("what answers there is not in the sandbox").into());
    }
    if kind.is_some_and(|kind| kind.is_block_device()) {
        return Some("a disk of the host, past all permissions".into());
    }
    let system = ROOT_SECRETS.iter().chain(RUNTIME);
    let mut system = system.filter(|(place, _)| path.starts_with(Path::new("/").join(place))).map(|(_, what)| *what);
    let secret = secret_above(path).map(|(_, secret)| secret.what).or(system.next());
    if let Some(what) = secret {
        return Some(format!("it holds {what}"));
    }
    if !write {
        return None;
    }
    let obeyed = |home: &Path| OBEYED.iter().any(|name| path.starts_with(home.join(name)));
    if homes.iter().any(|home| obeyed(home)) {
        return Some("programs outside the sandbox obey what is written there".into());
    }
    let searched = host.variable("PATH").is_some_and(|list| {
        std::env::split_paths(list).any(|directory| directory.is_absolute() && path.starts_with(&directory))
    });
    let top =
        SYSTEM.iter().chain(&["etc", "boot", "opt", "root"]).any(|top| path.starts_with(Path::new("/").join(top)));
    if searched || top || base::PROGRAMS.iter().any(|place| path.starts_with(place)) {
        return Some("programs outside the sandbox run or obey what is written there".into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_grant_gives_away() {
        let top = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(top.path()).unwrap();
        let home = top.join("home");
        std::fs::create_dir(&home).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(home.join("docker.sock")).unwrap();
        let host =
            Host { home: Some(home.clone()), environment: vec![("PATH".into(), "/tools".into())], ..Host::probe() };
        for (path, write, expected) in [
            (Path::new("/").to_owned(), false, Some("the whole host")),
            (home.clone(), false, Some("all of HOME")),
            (top.clone(), false, Some("HOME lies in it")),
            (home.join("docker.sock"), false, Some(POWER)),
            (home.join(".ssh"), false, Some("it holds private keys")),
            (home.join(".ssh/id"), false, Some("it holds private keys")),
            ("/etc/shadow".into(), false, Some("it holds password hashes")),
            ("/run/user".into(), false, Some("it holds control sockets")),
            (home.join(".bashrc"), false, None),
            (home.join(".bashrc"), true, Some("programs outside the sandbox obey what is written there")),
            ("/tools/x".into(), true, Some("programs outside the sandbox run or obey what is written there")),
            ("/usr/lib".into(), true, Some("programs outside the sandbox run or obey what is written there")),
            ("/usr/lib".into(), false, None),
            (home.join("project"), true, None),
        ] {
            assert_eq!(danger(&path, write, &host).as_deref(), expected, "{} {write}", path.display());
        }
    }
}
