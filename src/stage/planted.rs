//! Takes files of git's own away, in git directories, that the command has filled with what git would never write there: git on the
//! host believes them, and writes, reads and deletes what they name.
//!
//! Never goes through a link.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

use super::held::{Held, let_in};
use crate::plan::Plan;
use crate::plan::git::rerere;
use crate::sys::at::{open, through};
use crate::sys::process::describe;

/// After repositories are whole again and links have gone.
pub fn take_away(plan: &Plan) {
    for directory in plan.recognised.seen.keys() {
        // What has gone has no files.
        if let Ok(held) = open(directory) {
            conflicts(directory, &held);
        }
    }
}

/// A list of files in conflict.
fn conflicts(directory: &Path, held: &File) {
    if let Some(why) = rerere::refused(directory, &through(held)) {
        let text = format!("{why}, so git on the host would read or write what it should not");
        move_aside(directory, held, OsStr::new(rerere::NAME), &text);
    }
}

/// Gives what has this name in `directory` another one, and says `why`.
fn move_aside(directory: &Path, held: &File, name: &OsStr, why: &str) {
    let path = directory.join(name);
    match renamed(directory, held, name) {
        Ok(fate) => tracing::warn!("'{}' {why}: it is now {fate}", path.display()),
        Err(error) => tracing::warn!("'{}' {why}, and cannot be moved aside: {}", path.display(), describe(&error)),
    }
}

fn renamed(directory: &Path, held: &File, name: &OsStr) -> io::Result<String> {
    let file = Held::in_directory(held.try_clone()?, name);
    match let_in(held, None, || file.rename(name)) {
        Ok(new) => Ok(format!("'{}'", directory.join(new).display())),
        // On a full disk.
        Err(_) => let_in(held, None, || file.disarm(name)).map(str::to_owned),
    }
}
