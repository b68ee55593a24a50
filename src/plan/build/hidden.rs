//! Names that begin with a dot, taken out of a view: what the search has found becomes rules, and whoever reads notes is told.
//!
//! Searches nothing itself.

use std::path::{Path, PathBuf};

use super::super::hidden::{self, Ground, Scan, Told};
use super::super::links::walk;
use super::super::view::{FileKind, Rule};
use super::Builder;
use crate::error::Result;
use crate::policy::Hidden;
use crate::policy::hidden::Shown;

impl Builder<'_> {
    /// Names that begin with a dot, below everything that is shown because a wider directory is, and what git needs. `known` is
    /// what an earlier attempt of this call has found.
    pub fn hidden(&mut self, rule: &Hidden, known: Option<&Scan>) -> Result<Scan> {
        let Shown::Names(names) = &rule.shown else {
            self.view.drop_hidden_protects();
            let tops: Vec<_> = self.view.write_grants().map(Path::to_owned).collect();
            self.repositories(&tops)?;
            self.repositories_around()?;
            return Ok(Scan::default());
        };
        let home = self.host.home.as_deref().and_then(|home| walk(home).ok()).map(|found| found.end);
        let mut scan = match known {
            Some(known) => known.clone(),
            None => hidden::scan(&Ground::of(&self.view, self.workdir, home.as_deref(), names), rule, names)?,
        };
        scan.look_again()?;
        // Whoever starts in a hidden directory, or in one that a hidden link leads to, means that directory.
        if self.view.shows(self.workdir) && scan.present().any(|(path, _)| self.workdir.starts_with(path)) {
            let rule = if self.view.writable(self.workdir) { Rule::Write } else { Rule::Workdir };
            self.view.add(self.workdir, rule, FileKind::Directory);
        }
        let mut hidden = Vec::new();
        for (path, kind) in scan.present() {
            if self.view.shows(path) {
                self.view.hide_name(path, kind);
                hidden.push(path);
            }
        }
        self.view.drop_hidden_protects();
        // Whatever the search was for: what can be written is git's, too.
        let granted = self.view.write_grants().filter(|grant| !scan.repositories.iter().any(|known| known == grant));
        let granted: Vec<_> = granted.map(Path::to_owned).collect();
        self.repositories(&granted)?;
        self.repositories(&scan.repositories)?;
        self.repositories_around()?;
        self.notes.extend(scan.notes.iter().cloned());
        self.warnings.extend(scan.warnings.iter().cloned());
        self.tell_of_git(&scan.told);
        if !hidden.is_empty() {
            self.notes.push(format!(
                "names that begin with a dot are hidden, --show-hidden NAME shows one: {}",
                hidden::list(hidden.iter().copied())
            ));
        }
        let linked = scan.linked().count();
        if let Some(first) = scan.linked().next() {
            self.notes.push(format!(
                "{linked} hidden files have further names on the host (hard links), which are not looked for: '{}' is the first",
                first.display()
            ));
        }
        Ok(scan)
    }

    /// Says what git's word came to, since whoever works with git inside would wonder.
    fn tell_of_git(&mut self, told: &Told) {
        let Told { shown, changed, secret, unread } = told;
        let all = |paths: &[PathBuf]| hidden::list(paths.iter().map(PathBuf::as_path));
        if !shown.is_empty() {
            self.notes.push(format!("shown although they begin with a dot, since git has the same: {}", all(shown)));
        }
        let committed = |path: &PathBuf| self.view.write_grants().any(|grant| path.starts_with(grant));
        let emptied = [
            (secret, "git tracks these names, which are hidden as secrets"),
            (changed, "git tracks these hidden names with another content than they have"),
        ];
        for (paths, what) in emptied.into_iter().filter(|(paths, _)| !paths.is_empty()) {
            let text = format!(
                "{what}, so that git sees them emptied and 'git commit -a' would commit that (--show-hidden NAME shows one): {}",
                all(paths)
            );
            if paths.iter().any(committed) { self.warnings.push(text) } else { self.notes.push(text) }
        }
        for (path, reason) in unread {
            self.notes.push(format!("'{}' was not asked which names it tracks: {reason}", path.display()));
        }
    }
}
