//! Settings that the caller's environment and this machine give every repository: git on the host obeys them here as well.
//!
//! Reads variables and files, changes none. What git would refuse as an error is passed over.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::settings::{Named, Setting};
use crate::host::Host;

/// Settings of the machine, where git is installed as distributions do.
const SYSTEM: &str = "/etc/gitconfig";

/// What they name.
pub(super) fn settings(host: &Host) -> Named {
    let mut named = Named { left: u64::MAX, ..Named::default() };
    let home = host.home.as_deref();
    let own = path_in(host, "XDG_CONFIG_HOME").or_else(|| home.map(|home| home.join(".config")));
    let own = own.map(|own| own.join("git"));
    // Which filters and drivers are used, and what is passed over.
    named.files.extend(own.iter().flat_map(|own| ["attributes", "ignore"].map(|name| own.join(name))));
    let own = own.map(|own| own.join("config"));
    // Also where a variable names another: it may be set in this shell only.
    for file in home.map(|home| home.join(".gitconfig")).into_iter().chain(own).chain([SYSTEM.into()]) {
        named.add(&file, home, 0);
        named.files.push(file);
    }
    named.templates.extend(path_in(host, "GIT_TEMPLATE_DIR"));
    for file in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].iter().filter_map(|name| path_in(host, name)) {
        named.add(&file, home, 0);
        named.files.push(file);
    }
    for (key, value) in counted(host).chain(parameters(host)) {
        if let Some(setting) = setting(&key, value) {
            named.take(setting, None, home, 0);
        }
    }
    named
}

/// The work tree that the environment names.
pub(super) fn worktree(host: &Host) -> Option<PathBuf> {
    path_in(host, "GIT_WORK_TREE")
}

/// The git directory that the environment names, and the common one.
pub(super) fn directories(host: &Host) -> [Option<PathBuf>; 2] {
    ["GIT_DIR", "GIT_COMMON_DIR"].map(|name| path_in(host, name))
}

/// The index that it names, as it stands there: from the top of the work tree.
pub(super) fn index(host: &Host) -> Option<&Path> {
    host.variable("GIT_INDEX_FILE").filter(|path| !path.is_empty()).map(Path::new)
}

/// A path in a variable, from the caller's directory.
fn path_in(host: &Host, name: &str) -> Option<PathBuf> {
    let path = Path::new(host.variable(name).filter(|path| !path.is_empty())?);
    if path.is_absolute() { Some(path.to_owned()) } else { Some(host.cwd.as_ref().ok()?.join(path)) }
}

/// `GIT_CONFIG_KEY_0` and `GIT_CONFIG_VALUE_0`, and so on.
fn counted(host: &Host) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let count = host.variable("GIT_CONFIG_COUNT").and_then(OsStr::to_str).and_then(|count| count.trim().parse().ok());
    let one = |what, number| host.variable(&format!("GIT_CONFIG_{what}_{number}")).map(|text| text.as_bytes().to_vec());
    (0_usize..count.unwrap_or(0)).map_while(move |number| Some((one("KEY", number)?, one("VALUE", number)?)))
}

/// What `git -c` hands down: `'key'='value'`, and as it once was `'key=value'`.
fn parameters(host: &Host) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    pairs(host.variable("GIT_CONFIG_PARAMETERS").map(OsStr::as_bytes).unwrap_or_default()).into_iter()
}

fn pairs(mut text: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    loop {
        text = text.trim_ascii_start();
        let Some((word, rest)) = quoted(text) else { return pairs };
        let Some(rest) = rest.strip_prefix(b"=") else {
            let mut parts = word.splitn(2, |byte| *byte == b'=').map(<[u8]>::to_vec);
            pairs.push((parts.next().unwrap_or_default(), parts.next().unwrap_or_default()));
            text = rest;
            continue;
        };
        let (value, rest) = quoted(rest).unwrap_or((Vec::new(), rest));
        pairs.push((word, value));
        text = rest;
    }
}

/// A word as a shell quotes it, and what follows.
fn quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    let mut text = text.strip_prefix(b"'")?;
    loop {
        let end = text.iter().position(|byte| *byte == b'\'')?;
        word.extend(&text[..end]);
        text = &text[end + 1..];
        // A quote or an exclamation mark stands outside, behind a backslash.
        let [b'\\', escaped, b'\'', rest @ ..] = text else { return Some((word, text)) };
        word.push(*escaped);
        text = rest;
    }
}

fn setting(key: &[u8], value: Vec<u8>) -> Option<Setting> {
    let first = key.iter().position(|byte| *byte == b'.')?;
    let last = key.iter().rposition(|byte| *byte == b'.')?;
    let lower = |name: &[u8]| String::from_utf8_lossy(name).to_ascii_lowercase();
    let below = key.get(first + 1..last).unwrap_or_default().to_vec();
    Some(Setting { section: lower(&key[..first]), below, key: lower(&key[last + 1..]), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_git_reads_them() {
        for (text, expected) in [
            ("", &[][..]),
            ("'core.hooksPath'='a b'", &[("core.hooksPath", "a b")]),
            (" 'core.hooksPath=a=b' 'x.y'= 'x.z'", &[("core.hooksPath", "a=b"), ("x.y", ""), ("x.z", "")]),
            ("'a.b'='it'\\''s'\\!''  'c.d'='e'", &[("a.b", "it's!"), ("c.d", "e")]),
            ("'a.b'='open", &[("a.b", "")]),
        ] {
            let expected: Vec<_> =
                expected.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
            assert_eq!(pairs(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn keys_have_three_parts_at_most() {
        let key = |key: &str| setting(key.as_bytes(), Vec::new()).map(|one| (one.section, one.below, one.key));
        assert_eq!(key("Core.hooksPath"), Some(("core".into(), Vec::new(), "hookspath".into())));
        assert_eq!(
            key("includeIf.gitdir:/A.b.path"),
            Some(("includeif".into(), b"gitdir:/A.b".to_vec(), "path".into()))
        );
        assert_eq!(key("core"), None);
    }
}
