//! What a launcher program or a target leaves on the host although it may not, and its removal.
//!
//! Never goes through a link: whoever made what is to be removed may have put one on the way to something else.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use crate::plan::Plan;
use crate::plan::view::FileKind;

/// Removes the empty files that `bwrap` makes where a name to hide has gone and its directory can be written: the host shall
/// not keep them. The mask on such a file goes with it.
pub fn clear(plan: &Plan) {
    let writable = |path: &Path| plan.writable().any(|place| path != place && path.starts_with(place));
    for (path, kind) in plan.hidden.traces().filter(|(path, _)| writable(path)) {
        let removed = Held::of(path).and_then(|held| match kind {
            FileKind::File => fs::remove_file(&held.path),
            FileKind::Directory => fs::remove_dir(&held.path),
        });
        if let Err(error) = removed {
            tracing::debug!("'{}' stays: {error}", path.display());
        }
    }
}

/// A file under a name that nothing can redirect any more.
struct Held {
    /// Valid as long as this lives.
    path: PathBuf,
    _directory: File,
}

impl Held {
    /// The file at the absolute `path`, if there is no link on the way to it.
    fn of(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut directory = OpenOptions::new().read(true).custom_flags(flags.bits()).open("/")?;
        for part in parent.components() {
            if let Component::Normal(part) = part {
                directory = File::from(openat(&directory, part, flags, Mode::empty())?);
            }
        }
        let path = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _directory: directory })
    }

    /// Whether something was there and is gone with everything in it.
    fn remove(&self) -> io::Result<bool> {
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
            Ok(data) if data.is_dir() => fs::remove_dir_all(&self.path)?,
            Ok(_) => fs::remove_file(&self.path)?,
        }
        Ok(true)
    }
}

/// Removes what the target has made where nothing could be mounted to prevent it: git on the host would run or obey it.
///
/// After the end of everything inside; nobody but the host itself could still be making it.
pub fn take_away(plan: &Plan) {
    for path in &plan.absent {
        let removed = Held::of(path).and_then(|held| held.remove());
        let path = path.display();
        match removed {
            Ok(false) => {}
            // The directory went with it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(true) => {
                tracing::warn!("'{path}', which git on the host would obey, was made by the command and is removed");
            }
            Err(error) => {
                let reason = crate::sys::process::describe(&error);
                tracing::warn!(
                    "'{path}', which git on the host would obey, cannot be looked for and removed: {reason}"
                );
            }
        }
    }
}

/// Says which protected paths are there that were not: a protect is a mount, and there was nothing to mount it on.
pub fn tell(plan: &Plan) {
    for (path, option) in &plan.unprotected {
        if fs::symlink_metadata(path).is_ok() {
            tracing::warn!(
                "'{}' ({option}) was made during the run: it did not exist before, so nothing protected it",
                path.display()
            );
        }
    }
}
