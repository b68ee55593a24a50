//! What a launcher program leaves on the host, and its removal.

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
