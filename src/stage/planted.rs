//! Takes files of git's own away, in git directories, that the command has filled with what git would never write there: git on the
//! host believes them, and writes, reads and deletes what they name.
//!
//! Never goes through a link.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::held::{Held, let_in};
use crate::plan::Plan;
use crate::plan::git::seen::{self, Seen};
use crate::plan::git::{index, is_sha256, rerere};
use crate::sys::at::{open, through};
use crate::sys::process::describe;

/// After repositories are whole again and links have gone.
pub fn take_away(plan: &Plan) {
    for (directory, seen) in &plan.recognised.seen {
        // What has gone has no files.
        if let Ok(held) = open(directory) {
            conflicts(directory, &held);
            indexes(directory, &held, seen);
        }
    }
}

/// What lies in the work tree, as far as it is not what it was.
fn indexes(directory: &Path, held: &File, before: &Seen) {
    let path = through(held);
    let now = seen::indexes(&path);
    let changed = now.into_iter().filter(|(name, stamp)| before.get(name) != Some(stamp));
    for (name, _) in changed {
        // The objects are named in the same way in all work trees.
        let common = if directory.parent().is_some_and(|above| above.ends_with("worktrees")) {
            path.join("../..")
        } else {
            path.clone()
        };
        let opened =
            OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path.join(&name));
        let text = match opened.and_then(|file| index::refused(&file, is_sha256(&common))) {
            Ok(None) => continue,
            Ok(Some(name)) => format!(
                "names '{}', which git on the host would write, read or delete",
                OsStr::from_bytes(&name).display()
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => format!(
                "cannot be understood ({}), so nobody knows what git on the host would write or delete",
                told(&error)
            ),
        };
        move_aside(directory, held, &name, &text);
    }
}

fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => "it is malformed, or of an unknown version".into(),
        io::ErrorKind::FileTooLarge => format!("it is longer than {} MiB", index::LONGEST >> 20),
        _ => describe(error),
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
