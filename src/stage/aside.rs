//! Gives another name to what git on the host must not find, and says so.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

use super::held::{Held, let_in};
use crate::sys::process::describe;

/// Gives what has this name in `directory` another one, and says `why`.
pub(super) fn move_aside(directory: &Path, held: &File, name: &OsStr, why: &str) {
    tell(&directory.join(name), why, renamed(directory, held, name));
}

/// Warns of something at `path`, for this reason, and of what has become of it.
pub(super) fn tell(path: &Path, why: &str, fate: io::Result<String>) {
    match fate {
        Ok(fate) => tracing::warn!("'{}' {why}: it is now {fate}", path.display()),
        Err(error) => tracing::warn!("'{}' {why}, and cannot be moved aside: {}", path.display(), describe(&error)),
    }
}

/// Says what it is now.
pub(super) fn renamed(directory: &Path, held: &File, name: &OsStr) -> io::Result<String> {
    let file = Held::in_directory(held.try_clone()?, name);
    match let_in(held, None, || file.rename(name)) {
        Ok(new) => Ok(format!("'{}'", directory.join(new).display())),
        // On a full disk.
        Err(_) => let_in(held, None, || file.disarm(name)).map(str::to_owned),
    }
}
