//! Takes symbolic links away that the command has made in git directories, and refs that lead elsewhere: through them git on the host
//! writes settings and any file of the caller, and deletes what it takes for its own.
//!
//! Never follows one.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use super::held::{Held, let_in};
use super::mend::is_gone;
use crate::plan::Plan;
use crate::plan::git::strays::{AFTER, Kind, Known, Link, Look, is_aside};
use crate::plan::git::whole::is_branch;
use crate::sys::at::{enter, open, through};
use crate::sys::process::describe;

/// So many are told of one by one.
const TOLD: usize = 20;

/// After repositories are whole again: that takes parts out of the way that are links.
pub fn take_away(plan: &Plan) {
    let links_of = |directory: &Path| plan.recognised.links.contains_key(directory);
    for (directory, known) in &plan.recognised.links {
        match links(plan, directory, known, &links_of) {
            Ok(None) => {}
            Ok(Some(place)) => tracing::warn!(
                "there is too much in '{}' to look at it all: git on the host would write through links that the command has made there",
                place.display()
            ),
            Err(error) if is_gone(&error) => {}
            Err(error) => tracing::warn!(
                "'{}' cannot be searched for links, through which git on the host would write: {}",
                directory.display(),
                describe(&error)
            ),
        }
    }
}

/// The first directory that was looked at before, and not now.
fn links(plan: &Plan, top: &Path, known: &Known, links_of: &dyn Fn(&Path) -> bool) -> io::Result<Option<PathBuf>> {
    let held = open(top)?;
    let told = Cell::new(0_usize);
    let tell = |path: &Path, what: &str, fate: io::Result<String>| {
        told.set(told.get() + 1);
        let path = top.join(path);
        match fate {
            _ if told.get() > TOLD => {}
            Ok(fate) => tracing::warn!("'{}', {what}, was made during the run and is now {fate}", path.display()),
            Err(error) => tracing::warn!(
                "'{}', {what}, was made during the run and cannot be moved aside: {}",
                path.display(),
                describe(&error)
            ),
        }
    };
    // What was closed to us was not to be written.
    let kept = |path: &Path| path.parent().is_some_and(|above| !plan.rules.writable(&top.join(above)));
    let mut found = |link: Link| {
        let was_there = known.links.get(link.path) == Some(&link.text) || known.may_have(link.path) || is_head(&link);
        // git itself makes no ref that leads out.
        if kept(link.path) || link.kind != Kind::Ref && was_there || is_put_aside(&link) {
            return;
        }
        let what = match link.kind {
            Kind::Fifo => "a FIFO on which git on the host would wait".into(),
            Kind::Link => format!("a link to '{}' through which git on the host would write", link.text.display()),
            Kind::Ref => format!("a ref that leads to '{}', where git on the host would write", link.text.display()),
        };
        tell(link.path, &what, move_aside(&held, link.directory, link.name));
    };
    let mut deep = |directory: &File, path: &Path| {
        let name = path.file_name().unwrap_or_default();
        if !known.cut.contains(path) && !known.may_have(path) && !kept(path) {
            tell(path, "a directory too deep for git and to be looked at", move_aside(&held, directory, name));
        }
    };
    let mut opened = Vec::new();
    let mut closed = |directory: &File, path: &Path| {
        let Ok(now) = open_again(directory) else {
            // Somebody else's: the command could not enter it, either.
            return false;
        };
        // Of what lies in one that the caller had closed nothing is known.
        if path.ancestors().any(|above| known.closed.contains_key(above)) {
            opened.push((path.to_owned(), known.closed.get(path).copied().unwrap_or(now)));
        } else {
            tracing::warn!(
                "'{}' was closed to its owner and is open again: the command could have kept links in it, through which git on the host \
                 would write",
                top.join(path).display()
            );
        }
        true
    };
    let apart = |module: &Path| links_of(&top.join(module));
    let mut look =
        Look { left: AFTER, refs: true, found: &mut found, closed: &mut closed, deep: &mut deep, apart: &apart };
    let cut = look.through(&held)?;
    // As the caller had them, the inner ones first.
    for (path, mode) in opened.iter().rev() {
        let directory = path.iter().try_fold(held.try_clone()?, |directory, name| enter(&directory, name))?;
        fs::set_permissions(through(&directory), Permissions::from_mode(*mode))?;
    }
    if told.get() > TOLD {
        tracing::warn!("so were {} more in '{}'", told.get() - TOLD, top.display());
    }
    let unknown = |path: &PathBuf| !known.cut.contains(path) && !known.may_have(path);
    Ok(cut.into_iter().find(unknown).map(|path| top.join(path).components().collect()))
}

/// git's old form of a `HEAD`, in a repository or in the data of a worktree.
fn is_head(link: &Link) -> bool {
    let mut above = link.path.components();
    let place = above.next_back().is_some_and(|name| name.as_os_str() == "HEAD")
        && (above.as_path() == Path::new("") || above.as_path().parent() == Some(Path::new("worktrees")));
    place && is_branch(&link.text)
}

/// What has just been renamed, where git asks for names and lists none.
fn is_put_aside(link: &Link) -> bool {
    let mut above = link.path.components().rev().skip(1).map(Component::as_os_str);
    let place = match (above.next(), above.next(), above.next()) {
        (None, ..) => true,
        (Some(name), None, _) => name == "info",
        (Some(_), Some(name), None) => name == "worktrees",
        (Some(_), Some(_), Some(_)) => false,
    };
    place && link.name.to_str().is_some_and(is_aside)
}

/// Where git lists a directory it would find a name of any form: it goes to the top, where git asks for its own names only.
pub(super) fn move_aside(top: &File, directory: &File, name: &OsStr) -> io::Result<String> {
    let held = Held::in_directory(directory.try_clone()?, name);
    let mut hidden = OsString::from(".");
    hidden.push(name);
    // Either may be closed to its owner.
    let renamed = || let_in(top, None, || held.rename_into(top, &hidden));
    // Where it is a directory `..` of it changes.
    let moved = || match enter(directory, name) {
        Ok(inner) => let_in(&inner, None, renamed),
        Err(_) => renamed(),
    };
    match let_in(directory, None, moved) {
        Ok(new) => Ok(format!("'{}'", new.display())),
        // Its text has been said.
        Err(_) => let_in(directory, None, || held.disarm(name)).map(str::to_owned),
    }
}

/// Gives its owner all rights to a directory; says which there were.
fn open_again(directory: &File) -> io::Result<u32> {
    let path = through(directory);
    let mode = fs::metadata(&path)?.mode() & 0o7777;
    fs::set_permissions(&path, Permissions::from_mode(mode | 0o700)).map(|()| mode)
}
