//! What a launcher program or a target leaves on the host although it may not, and its removal.

use std::path::Path;

use crate::plan::Plan;
use crate::plan::view::FileKind;

/// Removes the empty files that `bwrap` makes where a name to hide has gone and its directory can be written: the host shall
/// not keep them. The mask on such a file goes with it.
pub fn clear(plan: &Plan) {
    let writable = |path: &Path| plan.writable().any(|place| path != place && path.starts_with(place));
    for (path, kind) in plan.hidden.traces().filter(|(path, _)| writable(path)) {
        let removed = match kind {
            FileKind::File => std::fs::remove_file(path),
            FileKind::Directory => std::fs::remove_dir(path),
        };
        if let Err(error) = removed {
            tracing::debug!("'{}' stays: {error}", path.display());
        }
    }
}

/// Removes what the target has made where nothing could be mounted to prevent it: git on the host would run or obey it.
///
/// After the end of everything inside; nobody but the host itself could still be making it.
pub fn take_away(plan: &Plan) {
    for path in &plan.absent {
        let Ok(data) = std::fs::symlink_metadata(path) else { continue };
        let removed = if data.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        let path = path.display();
        match removed {
            Ok(()) => {
                tracing::warn!("'{path}', which git on the host would obey, was made by the command and is removed");
            }
            Err(error) => {
                let reason = crate::sys::process::describe(&error);
                tracing::warn!(
                    "'{path}', which git on the host obeys, was made by the command and cannot be removed: {reason}"
                );
            }
        }
    }
}

/// Says which protected paths are there that were not: a protect is a mount, and there was nothing to mount it on.
pub fn tell(plan: &Plan) {
    for (path, option) in &plan.unprotected {
        if std::fs::symlink_metadata(path).is_ok() {
            tracing::warn!(
                "'{}' ({option}) was made during the run: it did not exist before, so nothing protected it",
                path.display()
            );
        }
    }
}
