//! What a launcher program or a target leaves on the host although it may not, and its removal.
//!
//! Never goes through a link: whoever made what is to be removed may have put one on the way to something else.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::held::{Held, let_in};
use crate::plan::view::FileKind;
use crate::plan::{Absent, Plan};
use crate::sys::at::{enter, normal, open};

/// Removes the empty files that `bwrap` makes where a name to hide has gone and its directory can be written: the host shall
/// not keep them. The mask on such a file goes with it.
pub fn clear(plan: &Plan) {
    if !plan.backend.has_view() {
        return;
    }
    let writable = |path: &Path| plan.writable().any(|place| path != place && path.starts_with(place));
    for (path, kind) in plan.hidden.traces().filter(|(path, _)| writable(path)) {
        let removed = Held::of(path).and_then(|held| {
            let_in(&held.directory, None, || match kind {
                FileKind::File => fs::remove_file(&held.path),
                FileKind::Directory => fs::remove_dir(&held.path),
            })
        });
        if let Err(error) = removed {
            tracing::debug!("'{}' stays: {error}", path.display());
        }
    }
}

/// A directory on the way to what must not be there.
struct Step<'a> {
    directory: File,
    at: &'a Path,
    /// What they were before the run, where that is known.
    before: Option<u32>,
}

impl Step<'_> {
    /// Does something in it, if need be by letting its owner in.
    fn attempt<T>(&self, plan: &Plan, mut action: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        // Only where the command could change them: the way from the top stays as it is.
        if plan.writable().any(|place| self.at.starts_with(place)) {
            return let_in(&self.directory, self.before, action);
        }
        action()
    }
}

/// Moves aside what was made in a place of `absent`; `None` when there is nothing.
///
/// A link on the way, below the directory that kept its name, was made as well, and leads whoever obeys it to the rest.
fn move_aside(plan: &Plan, absent: &Absent) -> io::Result<Option<Made>> {
    let path = absent.directory.join(&absent.name);
    let mut at = PathBuf::from("/");
    let mut directory = open(Path::new("/"))?;
    for part in normal(&path) {
        let next = at.join(part);
        let before = (at == absent.directory).then_some(absent.mode);
        let step = Step { directory, at: &at, before };
        if at.starts_with(&absent.directory) {
            let held = Held::in_directory(step.directory.try_clone()?, part);
            let data = step.attempt(plan, || fs::symlink_metadata(&held.path))?;
            if next == path && !absent.links_only || data.is_symlink() {
                let fate = match step.attempt(plan, || held.rename(part)) {
                    Ok(name) => Fate::Renamed(at.join(name)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
                    Err(error) => match step.attempt(plan, || held.disarm(part)) {
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
        directory = step.attempt(plan, || enter(&step.directory, part))?;
        at = next;
    }
    Ok(None)
}

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
