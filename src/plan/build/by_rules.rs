//! What a plan holds without anybody asking where rules hold on the host's own files, as on macOS: nothing is mounted there.
//!
//! Adds rules to a view and makes nothing: the private directories of a run are for the outer stage to make.

use std::path::{Path, PathBuf};

use super::super::base::macos;
use super::super::links::walk;
use super::super::view::{FileKind, Own, Rule};
use super::Builder;
use crate::backend::Backend;
use crate::error::{Error, Kind, Result};
use crate::policy::{Network, Origin, Policy};

/// Refuses what only mounts can do.
fn refuse_mounts(policy: &Policy, backend: Backend) -> Result<()> {
    if policy.files.tmp_size.is_none() {
        return Ok(());
    }
    let origin = policy.origins.get("tmp_size").unwrap_or(&Origin::Default);
    let text = format!("cannot bound private directories ({origin}): backend '{backend}' has them on the disk");
    Err(Error::text(Kind::Backend, text).hint("--max-file-size bounds each file"))
}

impl Builder<'_> {
    /// Secrets, the system, the working directory, private directories in the run's own, which is known by `run`.
    pub fn defaults_by_rules(&mut self, policy: &Policy, backend: Backend, run: Option<u64>) -> Result<()> {
        refuse_mounts(policy, backend)?;
        let homes = self.homes();
        for (below, _) in macos::HOME_SECRETS {
            for home in &homes {
                self.view.add(&home.join(below), Rule::Secret, FileKind::Directory);
            }
        }
        for (at, kind) in macos::SECRETS {
            if self.decides(Path::new(at)).is_some_and(|rule| !rule.hides()) {
                self.view.add(Path::new(at), Rule::Secret, *kind);
            }
        }
        for (at, kind) in macos::SYSTEM {
            let at = Path::new(at);
            if self.decides(at).is_none_or(|rule| *rule == Rule::Secret) {
                self.view.add(at, Rule::System { from: at.to_owned(), small: false }, *kind);
            }
        }
        if policy.network == Network::Host {
            self.view.add(Path::new(macos::RESOLVER), Rule::AllowSocket, FileKind::File);
        }
        let places = self.secrets.places();
        self.start_directory(&places)?;
        self.hide_places(&places);
        let scratch = macos::scratch(run);
        self.view.add(&scratch.join("tmp"), Rule::Own(Own::Shared), FileKind::Directory);
        self.private_home(&scratch);
        if let Some(image) = self.host.image.as_deref().and_then(|image| walk(image).ok())
            && !self.view.shows(&image.end)
        {
            self.view.add(&image.end, Rule::Program, FileKind::File);
        }
        self.machinery();
        Ok(())
    }

    /// A directory that HOME leads to, unless a rule shows the real one.
    fn private_home(&mut self, scratch: &Path) {
        let Some(home) = self.host.home.as_deref() else { return };
        let end = walk(home).map_or_else(|_| home.to_owned(), |found| found.end);
        match self.view.decides(&end) {
            Some((at, Rule::Workdir)) if at != end => {
                // The working directory above it is not meant to show it.
                self.view.add(&end, Rule::Secret, FileKind::Directory);
            }
            Some((_, rule)) if !rule.hides() => return,
            Some(_) | None => {}
        }
        self.view.add(&scratch.join("home"), Rule::Own(Own::Home), FileKind::Directory);
    }

    /// Every home that this user may have.
    fn homes(&self) -> Vec<PathBuf> {
        let listed = self.host.listed_home();
        let homes = self.host.home.iter().chain(&listed);
        homes.map(|home| walk(home).map_or_else(|_| home.clone(), |found| found.end)).collect()
    }

    /// What decides about `at`, which is the system's name of it; where links are, the caller's is another one.
    fn decides(&self, at: &Path) -> Option<&Rule> {
        let other =
            macos::LINKS.iter().find_map(|(link, place)| Some(Path::new(link).join(at.strip_prefix(place).ok()?)));
        let rules = [Some(at.to_owned()), other].into_iter().flatten().filter_map(|at| {
            let (at, rule) = self.view.decides(&at)?;
            Some((macos::canonical(at).components().count(), rule))
        });
        // The more specific of the two, and of one place the higher.
        rules.max().map(|(_, rule)| rule)
    }
}
