//! Takes symbolic links away that the command has made in git directories: through them git on the host writes settings and any file
//! of the caller, and deletes what it takes for its own.
//!
//! Never follows one.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path};

use super::held::{Held, is_aside, let_in};
use super::mend::is_gone;
use crate::plan::Plan;
use crate::plan::git::strays::{AFTER, Known, Link, Look};
use crate::plan::git::whole::is_branch;
use crate::sys::at::{open, through};
use crate::sys::process::describe;

/// So many are told of one by one.
const TOLD: usize = 20;

/// After repositories are whole again: that takes parts out of the way that are links.
pub fn take_away(plan: &Plan) {
    for (directory, known) in &plan.recognised.links {
        match links(directory, known) {
            Ok(true) => {}
            Ok(false) => tracing::warn!(
                "there is too much in '{}' to look at it all: git on the host would write through links that the command has made there",
                directory.display()
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

/// Whether everything was looked at.
fn links(top: &Path, known: &Known) -> io::Result<bool> {
    let held = open(top)?;
    let mut count = 0_usize;
    let mut found = |link: Link| {
        let below = link.path.components().count() > 1;
        let was_there = known.links.get(link.path) == Some(&link.text);
        if was_there || !known.all && below || is_head(&link) || is_put_aside(&link) {
            return;
        }
        count += 1;
        let fate = move_aside(&held, &link);
        if count > TOLD {
            return;
        }
        let path = top.join(link.path);
        match fate {
            Ok(fate) => tracing::warn!(
                "'{}', a link to '{}' through which git on the host would write, was made during the run and is now {fate}",
                path.display(),
                link.text.display()
            ),
            Err(error) => tracing::warn!(
                "'{}', a link to '{}' through which git on the host would write, was made during the run and cannot be moved aside: {}",
                path.display(),
                link.text.display(),
                describe(&error)
            ),
        }
    };
    let mut closed = |directory: &File, path: &Path| match open_again(directory) {
        Ok(()) => {
            tracing::warn!(
                "'{}' was closed to its owner and is open again: the command could have kept links in it, through which git on the host \
                 would write",
                top.join(path).display()
            );
            true
        }
        // Somebody else's: the command could not enter it, either.
        Err(_) => false,
    };
    let all = Look { left: AFTER, found: &mut found, closed: &mut closed }.through(&held);
    if count > TOLD {
        tracing::warn!("so were {} more links in '{}'", count - TOLD, top.display());
    }
    Ok(all || !known.all)
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
    place && is_aside(link.name)
}

/// Where git lists a directory it would find the link under any name: it goes to the top, where git asks for its own names only.
fn move_aside(top: &File, link: &Link) -> io::Result<String> {
    let held = Held::in_directory(link.directory.try_clone()?, link.name);
    let mut hidden = OsString::from(".");
    hidden.push(link.name);
    // Either may be closed to its owner.
    let moved = || let_in(top, None, || held.rename_into(top, &hidden));
    match let_in(link.directory, None, moved) {
        Ok(new) => Ok(format!("'{}'", new.display())),
        // Its text has been said.
        Err(_) => let_in(link.directory, None, || held.disarm(link.name)).map(str::to_owned),
    }
}

fn open_again(directory: &File) -> io::Result<()> {
    let path = through(directory);
    let mode = fs::metadata(&path)?.mode() & 0o7777;
    fs::set_permissions(&path, Permissions::from_mode(mode | 0o700))
}
