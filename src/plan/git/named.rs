//! Places in the work tree that the settings of a repository name: git on the host obeys them as it does its own.
//!
//! Programs that settings name (`core.fsmonitor`, filters) are not looked for: nobody can tell which files they are.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::super::build::Builder;
use super::super::closed;
use super::super::links::{Link, Walk, walk};
use super::super::view::FileKind;
use super::places::place_of;
use super::shut::unsure;
use super::{given, refuse};
use crate::error::{Error, Kind, Result};

/// Where husky keeps what git runs. It starts what lies in the directory above.
const HUSKY: &str = ".husky/_";

/// How many links that lead nowhere are followed, as many as the kernel follows.
const MOST_LINKS: usize = 40;

impl Builder<'_> {
    /// Protects directories of hooks and files of settings that the settings in these git directories name, or the user's own,
    /// for the work tree at `top`.
    pub(super) fn named_by(&mut self, directories: &[&Path], top: &Path) -> Result<()> {
        let written = directories.first().is_some_and(|directory| self.view.writable(directory));
        let which = directories.iter().map(|path| (*path).to_owned()).collect();
        if !self.looked.settings.insert((which, top.to_owned(), written)) {
            return Ok(());
        }
        let named = self.all_named(directories)?;
        // git takes it from the git directory. What holds everywhere names none.
        let own = named.iter().take(named.len() - 1).flat_map(|named| &named.worktrees);
        let own = own.flat_map(|path| directories.iter().map(move |directory| directory.join(path)));
        let mut tops: Vec<_> = own.collect();
        if let Some(directory) = directories.last() {
            for top in &tops {
                self.top_of(directory, top);
            }
        }
        self.recognised.given_tops.extend(given::worktree(self.host).map(|top| place_of(&top)));
        tops.extend(given::worktree(self.host));
        let unread = named.iter().find_map(|named| named.unread.as_ref());
        if let Some((file, why)) = unread.filter(|_| self.view.write_grants().next().is_some()) {
            return Err(Error::text(
                Kind::Policy,
                format!("cannot protect what git runs: cannot look at the settings in '{}': {why}", file.display()),
            ));
        }
        for file in named.iter().flat_map(|named| &named.files) {
            self.named_place(file, FileKind::File, top)?;
        }
        for templates in named.iter().flat_map(|named| &named.templates) {
            let templates = top.join(templates);
            self.named_place(&templates, FileKind::Directory, top)?;
            self.hook_links(&templates.join("hooks"))?;
        }
        let tops: Vec<_> = tops.into_iter().map(|top| walk(&top).map_or(top, |found| found.end)).collect();
        for hooks in named.iter().flat_map(|named| &named.hooks) {
            // In a git directory it counts from there: for what receives a push, and for who works in it.
            let others = directories.iter().copied().chain(tops.iter().map(PathBuf::as_path));
            let others = others.filter(|path| *path != top && hooks.is_relative());
            for top in std::iter::once(top).chain(others) {
                let mut path = top.join(hooks);
                self.named_place(&path, FileKind::Directory, top)?;
                if path.ends_with(HUSKY) && path.pop() {
                    self.named_place(&path, FileKind::Directory, top)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn named_place(&mut self, path: &Path, kind: FileKind, top: &Path) -> Result<()> {
        if !self.is_new_place(path, kind, top)? {
            return Ok(());
        }
        let Some(found) = self.reached(path)? else { return Ok(()) };
        if top.starts_with(&found.end) && self.view.writable(&found.end) {
            self.warnings.push(format!(
                "the settings of the repository in '{}' name '{}' as the directory of hooks, which cannot be protected \
                 as a whole: git on the host runs what the command makes there",
                top.display(),
                found.end.display()
            ));
            return Ok(());
        }
        self.obeys_at(&found);
        // One of another kind could be replaced.
        self.protect_from_git(&found.end, FileKind::of(&found.metadata));
        if kind == FileKind::Directory { self.hook_links(&found.end) } else { Ok(()) }
    }

    /// Protects what links in a directory of hooks lead to: they stay as they are, and git follows them.
    pub(super) fn hook_links(&mut self, hooks: &Path) -> Result<()> {
        // Whoever may write hooks needs no links.
        if self.view.writable(hooks) || self.view.write_grants().next().is_none() {
            return Ok(());
        }
        let links = match links_in(hooks) {
            Ok(links) => links,
            // git runs hooks that it cannot list.
            Err(error) => match fs::symlink_metadata(hooks) {
                Ok(data) if data.is_dir() && closed::is_ours(&data) && closed::enter(hooks, &data).is_ok() => {
                    return Err(unsure(hooks, &error, hooks));
                }
                _ => return Ok(()),
            },
        };
        for link in links {
            // A directory above cannot be replaced, since the hooks in it are protected.
            if let Some(found) = self.reached(&link)?.filter(|found| !hooks.starts_with(&found.end)) {
                self.obeys_at(&found);
                self.protect_from_git(&found.end, FileKind::of(&found.metadata));
            }
        }
        Ok(())
    }

    /// The place at the end of a way, and the links on it.
    fn obeys_at(&mut self, found: &Walk) {
        if !self.is_granted(&found.end) {
            found.links.iter().for_each(|link| self.obeys(&link.at));
            self.obeys(&found.end);
        }
    }

    /// Where `path` leads, by a way that cannot be changed. If nowhere, it is seen to that nothing gets there.
    fn reached(&mut self, path: &Path) -> Result<Option<Walk>> {
        match walk(path) {
            Ok(found) => self.no_link_to(&found.links, &found.end).map(|()| Some(found)),
            Err(_) => self.not_reached(path.to_owned()).map(|()| None),
        }
    }

    fn not_reached(&mut self, mut path: PathBuf) -> Result<()> {
        for _ in 0..MOST_LINKS {
            let Some((at, text)) = broken_link_on(&path) else { return self.nothing_there(&path) };
            let rest = path.strip_prefix(&at).map(Path::to_owned).unwrap_or_default();
            let (Some(above), Some(name)) = (at.parent(), at.file_name()) else { return Ok(()) };
            let Ok(found) = walk(above) else { return Ok(()) };
            if self.view.writable(&found.end) {
                return Err(refuse(&found.end.join(name), &text).hint("make what it leads to, or remove it"));
            }
            let next = found.end.join(text);
            let next = if rest.as_os_str().is_empty() { next } else { next.join(rest) };
            self.no_link_to(&found.links, &next)?;
            found.links.iter().for_each(|link| self.obeys(&link.at));
            self.obeys(&found.end.join(name));
            path = next;
        }
        Ok(())
    }

    /// The same for a path with no broken link on it.
    fn nothing_there(&mut self, path: &Path) -> Result<()> {
        let above = path.ancestors().skip(1).find_map(|above| Some((above, walk(above).ok()?)));
        let Some((above, found)) = above else { return Ok(()) };
        let rest: PathBuf = path.strip_prefix(above).unwrap_or(path).components().collect();
        self.no_link_to(&found.links, &found.end.join(&rest))?;
        found.links.iter().for_each(|link| self.obeys(&link.at));
        self.obeys(&found.end.join(&rest));
        if !found.metadata.is_dir() {
            self.protect_from_git(&found.end, FileKind::File);
        } else if self.opens(&found.end)? {
            // Past `..` something may be there: then it is the missing directory that leads to it.
            let back = rest.components().any(|part| part == Component::ParentDir);
            let name = if back { rest.iter().next().map(PathBuf::from).unwrap_or_default() } else { rest };
            self.not_to_be_made(&found.end, &[name]);
        }
        Ok(())
    }

    /// A link cannot be a mount point: whoever can write its directory gives the name to something else.
    pub(super) fn no_link_to(&self, links: &[Link], end: &Path) -> Result<()> {
        let free = |link: &&Link| link.at.parent().is_some_and(|above| self.view.writable(above));
        match links.iter().find(free).filter(|_| !self.is_granted(end)) {
            Some(link) if self.view.writable(end) => {
                Err(refuse(&link.at, end).hint(format!("--write '{}' accepts that", end.display())))
            }
            // A grant would let that be written, which a command may have aimed at.
            Some(link) => {
                Err(refuse(&link.at, end).hint("a command may have made the link: remove it if it is none of yours"))
            }
            None => Ok(()),
        }
    }
}

/// The last link on `path` that leads nowhere, and what it says.
fn broken_link_on(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let link = |at: &Path| fs::read_link(at).ok().filter(|_| walk(at).is_err());
    path.ancestors().find_map(|at| Some((at.to_owned(), link(at)?)))
}

fn links_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut links = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if closed::there(entry.file_type())?.is_some_and(|kind| kind.is_symlink()) {
            links.push(entry.path());
        }
    }
    links.sort_unstable();
    Ok(links)
}
