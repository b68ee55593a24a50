//! The private directories of a run without mounts: made before it, removed after it, whatever has become of them.
//!
//! Their names are random and made by us: no path that somebody else chose is ever removed.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use super::abandoned::{abandoned, hold};
use super::private;
use crate::plan::reach::Scratch;

/// How the name of such a directory begins; a number follows.
pub const PREFIX: &str = "sandbox-run-";

/// Makes them; fails where anything of that name is there already. As long as a process has what is returned, they are in use;
/// it is nothing where the file system knows no locks, and then nobody takes them for left behind, either.
pub fn make(scratch: &Scratch) -> io::Result<Option<OwnedFd>> {
    let directory = |path: &Path| {
        DirBuilder::new().mode(0o700).create(path)?;
        ensure(path, 0o700)
    };
    let lock = loop {
        DirBuilder::new().mode(0o700).create(&scratch.top)?;
        // Until there is a lock on it, it is what nobody holds, and may be swept away.
        match ensure(&scratch.top, 0o700).and_then(|()| hold(&scratch.top, true)) {
            Ok(Some(lock)) => break Some(lock),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => {
                ensure(&scratch.top, 0o700)?;
                break None;
            }
        }
    };
    directory(&scratch.tmp())?;
    fs::write(scratch.closed(), "")?;
    // Nothing but Landlock shall be in the way.
    ensure(&scratch.closed(), 0o400)?;
    if scratch.home.is_some() {
        let home = scratch.home();
        directory(&home)?;
        for (name, to) in &scratch.links {
            let at = home.join(name);
            let above: Vec<_> = at.ancestors().skip(1).take_while(|above| *above != home).collect();
            for parent in above.into_iter().rev().filter(|parent| fs::symlink_metadata(parent).is_err()) {
                directory(parent)?;
            }
            symlink(to, at)?;
        }
    }
    Ok(lock)
}

/// Removes what lies beside `scratch` of runs that were killed with all their processes, unless a command of theirs goes on.
pub fn sweep(scratch: &Scratch) {
    let Some(place) = scratch.top.parent() else { return };
    for (path, _lock) in abandoned(place, PREFIX) {
        if path.file_name().is_some_and(is_in_use) {
            continue;
        }
        match private::clear(&path, Duration::ZERO) {
            Ok(()) => tracing::debug!("'{}', left behind by a run that was killed, is removed", path.display()),
            Err(error) => tracing::debug!("'{}' stays: {}", path.display(), crate::sys::process::describe(&error)),
        }
    }
}

/// Whether a process was started with the name of such a directory in its environment: `TMPDIR` leads there.
fn is_in_use(name: &OsStr) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let environments = processes.filter_map(|process| fs::read(process.path().join("environ")).ok());
    let name = name.as_bytes();
    environments.into_iter().any(|environment| environment.windows(name.len()).any(|window| window == name))
}

/// Gives the owner these permissions, whatever the caller's mask has left. Inside another such run nothing could be changed, and
/// so nothing is where there is no need.
fn ensure(path: &Path, mode: u32) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?.permissions().mode();
    if found & mode == mode { Ok(()) } else { fs::set_permissions(path, Permissions::from_mode(mode)) }
}

/// Removes them with all that is in them. For when nothing of the run is left.
pub fn remove(scratch: &Scratch) {
    match fs::remove_dir_all(&scratch.top) {
        Ok(()) => return,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(_) => {}
    }
    // The target may have shut a directory even to its owner. Where it could put something else in the place of ours, that is
    // removed and no link followed.
    if fs::symlink_metadata(&scratch.top).is_ok_and(|found| found.is_dir()) {
        open_up(&scratch.top);
    }
    if let Err(error) = fs::remove_dir_all(&scratch.top) {
        let reason = crate::sys::process::describe(&error);
        tracing::warn!("'{}' cannot be removed: {reason}", scratch.top.display());
    }
}

/// Lets the owner into every directory below `top`, never through a link.
fn open_up(top: &Path) {
    let mut todo = vec![top.to_owned()];
    while let Some(directory) = todo.pop() {
        // What stays shut is what the next removal tells of.
        let _opened = fs::set_permissions(&directory, Permissions::from_mode(0o700));
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                todo.push(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_shut_is_removed_and_links_are_not_followed() {
        let world = tempfile::tempdir().unwrap();
        let [top, outside] = ["top", "outside"].map(|name| world.path().join(name));
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "kept").unwrap();
        let links = vec![(".tool/bin".into(), outside.clone()), (".data".into(), outside.join("file"))];
        let scratch = Scratch { top: top.clone(), home: Some("/home/me".into()), links };
        make(&scratch).unwrap();
        assert_eq!(fs::read(scratch.home().join(".tool/bin/file")).unwrap(), b"kept");
        assert_eq!(make(&scratch).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let shut = scratch.tmp().join("a/b");
        fs::create_dir_all(&shut).unwrap();
        fs::write(shut.join("file"), "").unwrap();
        symlink(&outside, scratch.tmp().join("a/link")).unwrap();
        for directory in [shut.as_path(), shut.parent().unwrap(), &scratch.tmp()] {
            fs::set_permissions(directory, Permissions::from_mode(0o0)).unwrap();
        }
        remove(&scratch);
        assert!(fs::symlink_metadata(&top).is_err());
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"kept");
        // Nothing to do is no fault.
        remove(&scratch);
    }
}
