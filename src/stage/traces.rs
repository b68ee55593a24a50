//! What a launcher program or a target leaves on the host although it may not, and its removal.
//!
//! Never goes through a link: whoever made what is to be removed may have put one on the way to something else.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::plan::view::FileKind;
use crate::plan::{Absent, Plan};
use crate::sys::at::{enter, normal, open, through};

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
pub(super) struct Held {
    /// Valid as long as this lives.
    pub(super) path: PathBuf,
    directory: File,
}

impl Held {
    /// The file at the absolute `path`, if there is no link on the way to it.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok(Self::in_directory(open(parent)?, name))
    }

    pub(super) fn in_directory(directory: File, name: &OsStr) -> Self {
        Self { path: through(&directory).join(name), directory }
    }
}

/// A directory on the way to what must not be there.
struct Step<'a> {
    directory: File,
    at: &'a Path,
    /// What they were before the run, where that is known.
    before: Option<u32>,
}

/// Directories whose owner was let in again in order to look.
struct Opened<'a> {
    plan: &'a Plan,
    /// With the permission bits that they have afterwards.
    directories: Vec<(File, u32)>,
}

impl Opened<'_> {
    /// Does something in a directory, if need be after its owner has been let in again.
    fn attempt<T>(&mut self, step: &Step, action: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let denied = match action() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
            other => return other,
        };
        // Only where the command could change them: the way from the top stays as it is.
        if !self.plan.writable().any(|place| step.at.starts_with(place)) {
            return Err(denied);
        }
        let path = through(&step.directory);
        let mode = fs::metadata(&path)?.mode() & 0o7777;
        // Where this fails the directory is somebody else's, and so is the reason.
        if mode & 0o700 == 0o700 || fs::set_permissions(&path, Permissions::from_mode(mode | 0o700)).is_err() {
            return Err(denied);
        }
        self.directories.push((step.directory.try_clone()?, step.before.unwrap_or(mode)));
        action()
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        for (directory, mode) in self.directories.drain(..).rev() {
            if let Err(error) = fs::set_permissions(through(&directory), Permissions::from_mode(mode)) {
                tracing::debug!("a directory keeps its owner's permissions: {error}");
            }
        }
    }
}

/// Moves aside what was made in a place of `absent`; `None` when there is nothing.
///
/// A link on the way, below the directory that kept its name, was made as well, and leads git to the rest.
fn move_aside(plan: &Plan, absent: &Absent) -> io::Result<Option<Made>> {
    let path = absent.directory.join(&absent.name);
    let mut opened = Opened { plan, directories: Vec::new() };
    let mut at = PathBuf::from("/");
    let mut directory = open(Path::new("/"))?;
    for part in normal(&path) {
        let next = at.join(part);
        let before = (at == absent.directory).then_some(absent.mode);
        let step = Step { directory, at: &at, before };
        if at.starts_with(&absent.directory) {
            let held = Held::in_directory(step.directory.try_clone()?, part);
            let data = opened.attempt(&step, || fs::symlink_metadata(&held.path))?;
            if next == path || data.is_symlink() {
                let fate = match opened.attempt(&step, || held.rename(part)) {
                    Ok(name) => Fate::Renamed(at.join(name)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
                    Err(error) => match opened.attempt(&step, || held.disarm(part)) {
                        Ok(how) => Fate::Kept(how, error),
                        Err(_) => return Err(error),
                    },
                };
                return Ok(Some(Made { at: next, fate }));
            }
            // git does not look into a file, either.
            if !data.is_dir() {
                return Ok(None);
            }
        }
        directory = opened.attempt(&step, || enter(&step.directory, part))?;
        at = next;
    }
    Ok(None)
}

impl Held {
    /// Gives it a name that git does not know, and says which. No name that somebody could foresee and take, nor a long one.
    pub(super) fn rename(&self, name: &OsStr) -> io::Result<PathBuf> {
        self.rename_into(&self.directory, name)
    }

    /// Gives it the name `name` in a directory.
    pub(super) fn rename_to(&self, directory: &File, name: &OsStr) -> io::Result<()> {
        fs::rename(&self.path, through(directory).join(name))
    }

    /// As [`Self::rename`], in another directory.
    pub(super) fn rename_into(&self, directory: &File, name: &OsStr) -> io::Result<PathBuf> {
        let mut random = [0_u8; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let mut new = if name.len() <= LONG { name.to_owned() } else { OsString::new() };
        new.push(format!("{ASIDE}{}", u64::from_ne_bytes(random)));
        fs::rename(&self.path, through(directory).join(&new))?;
        Ok(new.into())
    }

    /// Makes it nothing that git would obey where it has to keep its name, as on a full disk: needs no room. Says how.
    pub(super) fn disarm(&self, name: &OsStr) -> io::Result<&'static str> {
        if !fs::symlink_metadata(&self.path)?.is_dir() {
            fs::remove_file(&self.path)?;
            return Ok("removed");
        }
        let inner = enter(&self.directory, name)?;
        fs::set_permissions(through(&inner), Permissions::from_mode(0o0))?;
        // Root is above permissions.
        if geteuid().is_root() {
            for entry in fs::read_dir(through(&inner))? {
                let entry = entry?;
                if !entry.file_type()?.is_dir() {
                    fs::remove_file(entry.path())?;
                }
            }
            return Ok("emptied");
        }
        Ok("closed to everybody")
    }
}

/// What comes before the number in a name that we give.
const ASIDE: &str = ".sandbox-run-";

/// Whether a name is one that we give.
pub(super) fn is_aside(name: &OsStr) -> bool {
    let number = name.to_str().and_then(|name| name.rsplit_once(ASIDE)).map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Longer names are not kept as a part of the new one: most file systems end at 255 bytes, some at 143.
const LONG: usize = 100;

/// What was found, and what has become of it.
struct Made {
    at: PathBuf,
    fate: Fate,
}

enum Fate {
    Renamed(PathBuf),
    /// How it was disarmed, and why it could not be renamed.
    Kept(&'static str, io::Error),
}

/// Moves aside what has been made where nothing could be mounted to prevent it: git on the host, or a later run, would obey it.
///
/// After the end of everything inside. Kept under another name, since it may be the host that has made it meanwhile.
pub fn take_away(plan: &Plan) {
    for absent in &plan.absent {
        let path = absent.directory.join(&absent.name);
        match move_aside(plan, absent) {
            Ok(None) => {}
            // Nothing was made, or the directory went with it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(Some(Made { at, fate: Fate::Renamed(to) })) => tracing::warn!(
                "'{}', which {} would obey, was made during the run and is now '{}'",
                at.display(),
                absent.obeyed_by,
                to.display()
            ),
            Ok(Some(Made { at, fate: Fate::Kept(how, error) })) => tracing::warn!(
                "'{}', which {} would obey, was made during the run and is now {how}; it cannot be renamed: {}",
                at.display(),
                absent.obeyed_by,
                crate::sys::process::describe(&error)
            ),
            Err(error) => tracing::warn!(
                "'{}', which {} would obey, cannot be looked for and moved aside: {}",
                path.display(),
                absent.obeyed_by,
                crate::sys::process::describe(&error)
            ),
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
