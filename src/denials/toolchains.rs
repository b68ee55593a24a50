//! Places of toolchains below HOME, for which a profile is a better suggestion than a grant of each.

use std::path::{Path, PathBuf};

use super::danger;
use crate::config::profiles::Profiles;
use crate::host::Host;
use crate::plan::links::walk;
use crate::policy::{Origin, Policy};

/// Built-in profiles that show toolchains.
const PROFILES: [&str; 5] = ["go", "jvm", "node", "python", "rust"];

/// Programs of all kinds lie there.
const COMMON: &str = "~/.local/bin";

/// The one built-in profile that shows `place`, which names no link, to who reads it, and that `policy` does not have.
#[must_use]
pub fn profile_for(place: &Path, policy: &Policy, host: &Host) -> Option<&'static str> {
    let home = host.home.as_deref()?;
    // A profile keeps secrets hidden.
    if danger(place, false, host).is_some() {
        return None;
    }
    let mut found = PROFILES.into_iter().filter(|name| shown_by(name).iter().any(|root| holds(root, place, home)));
    // What several toolchains share tells nothing of which of them is meant.
    let (Some(name), None) = (found.next(), found.next()) else { return None };
    let has = policy.files.grants.iter().any(|grant| grant.origin == Origin::Profile(name.into()));
    (!has).then_some(name)
}

/// What a profile shows where it exists.
fn shown_by(name: &str) -> Vec<PathBuf> {
    let mut profiles = Profiles::new(None, &[]);
    // None of these extends another or takes anything from the environment.
    if profiles.add(name).is_err() {
        return Vec::new();
    }
    profiles.documents().into_iter().flat_map(|(_, document)| document.read_roots_optional).collect()
}

fn holds(root: &Path, place: &Path, home: &Path) -> bool {
    let below = root.strip_prefix("~").ok().filter(|_| root != Path::new(COMMON));
    below.is_some_and(|below| walk(&home.join(below)).is_ok_and(|found| place.starts_with(&found.end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::merge;
    use crate::config::{Layer, Set};
    use crate::policy::Network;

    #[test]
    fn a_toolchain_has_its_profile() {
        let top = tempfile::tempdir().unwrap();
        let home = std::fs::canonicalize(top.path()).unwrap();
        for place in [".cargo/bin", ".pyenv/versions", ".nvm", ".asdf", ".local/bin", "other", ".cargo-home"] {
            std::fs::create_dir_all(home.join(place)).unwrap();
        }
        std::fs::write(home.join(".cargo/credentials.toml"), "x").unwrap();
        let host = Host { home: Some(home.clone()), ..Host::probe() };
        let network = Some(Set::new(Network::Off, Origin::Default));
        let policy = merge([Layer { network, ..Layer::default() }]);
        for (place, expected) in [
            (".cargo/bin", Some("rust")),
            (".cargo", Some("rust")),
            (".pyenv/versions", Some("python")),
            (".nvm", Some("node")),
            (".asdf", None),
            (".local/bin", None),
            (".cargo/credentials.toml", None),
            ("other", None),
            (".cargo-home", None),
            ("", None),
        ] {
            assert_eq!(profile_for(&home.join(place), &policy, &host), expected, "{place}");
        }
        let mut profiles = Profiles::new(None, &[]);
        profiles.add("rust").unwrap();
        let has = merge(profiles.documents().into_iter().map(|(origin, document)| document.layer(&origin)));
        assert_eq!(profile_for(&home.join(".cargo/bin"), &has, &host), None);
    }
}
