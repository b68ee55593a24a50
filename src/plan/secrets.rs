//! Where this host has what [`base`] names as secret, and who may reach it without having asked for it by name.
//!
//! Looks at names, reads no file; `build` puts the places into the view.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::links::{Walk, walk, walk_from};
use super::listing::Listings;
use super::view::FileKind;
use super::{base, closed};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::policy::hidden;

/// Directories below a home in which many places of secrets may lie.
const CROWDED_HOME: &[&str] = &["", ".config/", ".local/share/"];

/// The same below the root.
const CROWDED: &[&str] = &["etc/", "var/lib/"];

/// A place that is hidden below any wider grant.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Where it is looked for: only the last name may be a link.
    name: PathBuf,
    /// Without links.
    pub end: PathBuf,
    pub kind: FileKind,
    pub what: &'static str,
    /// Whether it holds secrets, and not only a way to them.
    secret: bool,
}

/// All that are there.
#[derive(Debug)]
pub(super) struct Secrets(Vec<Place>);

impl Secrets {
    /// Most do not exist.
    pub fn of(host: &Host) -> Self {
        let mut places = Vec::new();
        // HOME is the caller's word; the user database may know another home, in which the same secrets lie.
        let listed = host.listed_home();
        let homes: BTreeSet<PathBuf> =
            host.home.iter().chain(&listed).filter_map(|home| walk(home).ok()).map(|found| found.end).collect();
        for home in homes {
            let listings = Listings::of(&home, CROWDED_HOME);
            for (name, what) in base::SECRETS {
                let name = name.trim_start_matches(base::COMMITTED);
                if !name.contains('*') && listings.lack(name) {
                    continue;
                }
                for name in named(&home, name) {
                    places.extend(place(&home, &name, what, true));
                }
            }
        }
        if let Some(cargo) = host.variable("CARGO_HOME").and_then(|cargo| walk(Path::new(cargo)).ok()) {
            for name in ["credentials", "credentials.toml"] {
                places.extend(place(&cargo.end, Path::new(name), "registry tokens", true));
            }
        }
        let root = Path::new("/");
        let listings = Listings::of(root, CROWDED);
        for (name, what) in base::ROOT_SECRETS {
            if !listings.lack(name) {
                places.extend(place(root, Path::new(name), what, true));
            }
        }
        for (name, what) in base::RUNTIME {
            places.extend(place(root, Path::new(name), what, false));
        }
        Self(places)
    }

    pub fn places(&self) -> Vec<Place> {
        self.0.clone()
    }

    /// The place of secrets that `path`, which names no link, is or lies in, and what it holds.
    pub fn above<'a>(&'a self, path: &'a Path) -> Option<(&'a Path, &'static str)> {
        let known = self.0.iter().find(|place| place.secret && path.starts_with(&place.end));
        let known = known.map(|place| (place.end.as_path(), place.what));
        known.or_else(|| base::secret_above(path).map(|(at, secret)| (at, secret.what)))
    }

    /// Refuses what is typed as `path` and leads by a link into a place of secrets that nobody typed: whoever made the link, the
    /// command of an earlier run, perhaps, would have chosen what is granted.
    pub fn refuse_led(&self, path: &Path, found: &Walk, refuse: &dyn Fn(&str) -> Error) -> Result<()> {
        if found.links.is_empty() {
            return Ok(());
        }
        let Some((_, what)) = self.above(&found.end) else { return Ok(()) };
        let typed: Vec<PathBuf> = path.ancestors().filter_map(without_links_above).collect();
        let known = self.0.iter().filter(|place| place.secret && found.end.starts_with(&place.end));
        let names = known.flat_map(|place| [place.name.as_path(), &place.end]);
        let all = found.end.ancestors().filter(|at| base::secret_above(at).is_some_and(|(above, _)| above == *at));
        if names.chain(all).any(|place| typed.iter().any(|typed| typed == place)) {
            return Ok(());
        }
        let end = found.end.display();
        let error = refuse(&format!("it leads by a link to '{end}', which holds {what}"));
        Err(error.hint(format!("'{end}' in its place grants that")))
    }
}

/// What `path` names, without following its last name.
fn without_links_above(path: &Path) -> Option<PathBuf> {
    Some(walk(path.parent()?).ok()?.end.join(path.file_name()?))
}

/// The names below `directory` that `pattern` stands for.
fn named(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let whole = Path::new(pattern);
    let (Some(above), Some(last)) = (whole.parent(), pattern.rsplit('/').next()) else { return Vec::new() };
    if !last.contains('*') {
        return vec![whole.to_owned()];
    }
    let entries = match closed::there(fs::read_dir(directory.join(above))) {
        Ok(entries) => entries.into_iter().flatten().flatten(),
        // Any of its names could be one.
        Err(_) if above.as_os_str().is_empty() => return Vec::new(),
        Err(_) => return vec![above.to_owned()],
    };
    let names = entries.map(|entry| entry.file_name());
    let fits = names.filter(|name| hidden::matches(last, name.as_encoded_bytes()) && !hidden::is_default(name));
    fits.map(|name| above.join(name)).collect()
}

/// The place that is `name` below `directory`, if there is one. A directory on the way that its owner has closed stands for it,
/// since it can be opened inside.
fn place(directory: &Path, name: &Path, what: &'static str, secret: bool) -> Option<Place> {
    let (name, closed) = if let Ok(found) = closed::look(&directory.join(name)) {
        found?;
        let shut = |part: &&Path| {
            let at = directory.join(part);
            walk(&at).is_ok_and(|found| closed::enter(&at, &found.metadata).is_err())
        };
        let parts = name.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty());
        parts.filter(shut).last().map_or((name, false), |part| (part, true))
    } else {
        let reached = |part: &&Path| fs::symlink_metadata(directory.join(part)).is_ok();
        (name.ancestors().skip(1).find(reached)?, true)
    };
    let found = walk_from(directory, name).ok()?;
    if closed && !closed::is_ours(&found.metadata) && !nix::unistd::geteuid().is_root() {
        return None;
    }
    Some(Place { name: directory.join(name), kind: FileKind::of(&found.metadata), end: found.end, what, secret })
}
