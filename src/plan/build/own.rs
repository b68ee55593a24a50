//! Our own settings on the host: what a command could write there, a later run would take for the user's word.
//!
//! Reads none of them.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::closed;
use super::super::links::{Link, walk};
use super::super::view::{FileKind, Rule};
use super::Builder;
use crate::config::sources::profile_directory;

impl Builder<'_> {
    /// Protects the directory in which the user's profiles lie, wherever a write grant reaches it, and the `policy` file of this run.
    /// Where the directory is missing it is not to be made.
    pub fn own_settings(&mut self, policy: Option<&Path>) {
        if self.view.write_grants().next().is_none() {
            return;
        }
        // A descriptor that was named by its path is nobody's file.
        if let Some(found) = policy.and_then(|policy| walk(policy).ok()).filter(|found| found.metadata.is_file()) {
            self.keep(&found.end, FileKind::File);
            self.warn_of_links(&found.links);
        }
        let used = profile_directory(self.host);
        let usual = self.host.home.as_deref().map(|home| home.join(".config/sandbox-run/profiles"));
        let mut directories: Vec<PathBuf> = used.into_iter().chain(usual).collect();
        directories.dedup();
        for profiles in directories {
            let Some(directory) = profiles.parent() else { continue };
            if self.keep_settings(directory) && self.keep_settings(&profiles) {
                let entries = fs::read_dir(&profiles).into_iter().flatten().flatten();
                let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
                for link in links {
                    self.keep_settings(&link.path());
                }
            }
        }
    }

    /// Protects what lies at `path`. Says whether there is anything.
    fn keep_settings(&mut self, path: &Path) -> bool {
        let error = match walk(path) {
            Ok(found) => {
                self.keep(&found.end, FileKind::of(&found.metadata));
                self.warn_of_links(&found.links);
                return true;
            }
            Err(error) => error,
        };
        let above = path.ancestors().skip(1).find_map(|above| Some((above, walk(above).ok()?)));
        let Some((above, found)) = above else { return false };
        self.warn_of_links(&found.links);
        if !closed::is_absence(&error) {
            // Whoever has closed it may open it again.
            self.keep(&found.end, FileKind::of(&found.metadata));
        } else if let Ok(rest) = path.strip_prefix(above)
            // A link that leads nowhere is there, and the user's.
            && rest.iter().next().is_some_and(|name| fs::symlink_metadata(found.end.join(name)).is_err())
        {
            self.keep_missing(&found.end, &[rest], "a later run of sandbox-run");
        }
        false
    }

    fn keep(&mut self, path: &Path, kind: FileKind) {
        if self.view.writable(path) && !self.is_granted(path) {
            self.view.add(path, Rule::Protect, kind);
        }
    }

    /// A link cannot be held, and to have one on the way is no reason to start nothing.
    fn warn_of_links(&mut self, links: &[Link]) {
        let free = links.iter().find(|link| link.at.parent().is_some_and(|above| self.view.writable(above)));
        let Some(link) = free else { return };
        let text = format!(
            "'{}' is a link that the command can replace, and leads to settings of later runs: look at it before the next run",
            link.at.display()
        );
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }
}
