//! Places in the work tree that the settings of a repository name: git on the host obeys them as it does its own.
//!
//! Programs that settings name (`core.fsmonitor`, filters) are not looked for: nobody can tell which files they are.

use std::path::{Path, PathBuf};

use super::super::build::{Builder, place};
use super::super::links::{Link, walk};
use super::super::view::FileKind;
use super::refuse;
use super::settings::Named;
use crate::error::Result;

/// Where husky keeps what git runs. It starts what lies in the directory above.
const HUSKY: &str = ".husky/_";

impl Builder<'_> {
    /// Protects directories of hooks and files of settings that the settings in these git directories name, or the user's own,
    /// for the work tree at `top`.
    pub(super) fn named_by(&mut self, directories: &[&Path], top: &Path) -> Result<()> {
        let home = self.host.home.as_deref();
        let own = self.host.variable("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
        let own = own.or_else(|| home.map(|home| home.join(".config"))).map(|own| own.join("git/config"));
        let users = home.map(|home| home.join(".gitconfig")).into_iter().chain(own);
        let repositorys = directories.iter().flat_map(|path| ["config", "config.worktree"].map(|name| path.join(name)));
        let mut named = Named::default();
        for file in repositorys.chain(users) {
            named.add(&file, home, 0);
        }
        for file in named.files {
            self.named_place(&file, FileKind::File, top)?;
        }
        for hooks in named.hooks {
            let mut path = top.join(hooks);
            self.named_place(&path, FileKind::Directory, top)?;
            if path.ends_with(HUSKY) && path.pop() && walk(&path).is_ok() {
                self.named_place(&path, FileKind::Directory, top)?;
            }
        }
        Ok(())
    }

    fn named_place(&mut self, path: &Path, kind: FileKind, top: &Path) -> Result<()> {
        match walk(path) {
            Ok(found) => {
                self.no_link_to(&found.links, &found.end)?;
                if top.starts_with(&found.end) && self.view.writable(&found.end) {
                    self.warnings.push(format!(
                        "the settings of the repository in '{}' name '{}' as the directory of hooks, which cannot be protected \
                         as a whole: git on the host runs what the command makes there",
                        top.display(),
                        found.end.display()
                    ));
                } else if found.metadata.is_dir() == (kind == FileKind::Directory) {
                    self.protect_from_git(&found.end, kind);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.no_dangling_link_on(path)?;
                if let Ok(place) = place(path)
                    && let Some(directory) = place.first.parent().filter(|above| self.view.writable(above))
                    && let Ok(name) = place.path.strip_prefix(directory)
                {
                    self.no_link_to(&place.links, &place.path)?;
                    self.not_to_be_made(directory, &[name]);
                }
            }
            Err(_) => {}
        }
        Ok(())
    }

    fn no_dangling_link_on(&self, path: &Path) -> Result<()> {
        let text = |at: &Path| std::fs::read_link(at).ok().filter(|_| walk(at).is_err());
        let dangling = path.ancestors().find_map(|at| text(at).map(|text| Link { at: at.to_owned(), text }));
        let free = |link: &Link| link.at.parent().is_some_and(|above| self.view.writable(above));
        match dangling.filter(free) {
            Some(link) => Err(refuse(&link.at, &link.text).hint("make what it leads to, or remove it")),
            None => Ok(()),
        }
    }

    /// A link cannot be a mount point: whoever can write its directory gives the name to something else.
    fn no_link_to(&self, links: &[Link], end: &Path) -> Result<()> {
        let free = |link: &&Link| link.at.parent().is_some_and(|above| self.view.writable(above));
        match links.iter().find(free).filter(|_| !self.is_granted(end)) {
            Some(link) => Err(refuse(&link.at, end).hint(format!("--write '{}' accepts that", end.display()))),
            None => Ok(()),
        }
    }
}
