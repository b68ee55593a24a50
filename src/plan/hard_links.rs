//! Further names of files that a rule covers: it holds for one name, and nobody knows where the others are.
//!
//! Counts names, looks for none.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::hidden::list;
use super::view::{FileKind, Rule, View};

/// So many entries below covered directories are looked at, of all together.
const MOST: usize = 10_000;

/// Says so, since nobody would look for it.
///
/// Not of our own file, which nobody asked to cover and which cargo always links twice.
pub(super) fn warn(view: &View, image: Option<&Path>, warnings: &mut Vec<String>, notes: &mut Vec<String>) {
    for path in view.covered().filter(|path| Some(*path) != image) {
        let Ok(metadata) = fs::symlink_metadata(path) else { continue };
        if !metadata.is_dir() && metadata.nlink() > 1 {
            warnings.push(format!(
                "'{}' has {} names on the host (hard links); only this one is covered",
                path.display(),
                metadata.nlink()
            ));
        }
    }
    let mut left = MOST;
    for top in covered_directories(view) {
        let linked = linked(top, view, image, &mut left);
        if !linked.is_empty() {
            warnings.push(format!(
                "files in '{}' have further names on the host (hard links), which are not covered: {}",
                top.display(),
                list(linked.iter().map(PathBuf::as_path))
            ));
        }
    }
    if left == 0 {
        notes.push(format!(
            "directories that are masked or protected were not searched to the end for files with further names (hard \
             links), after {MOST} entries"
        ));
    }
}

/// Directories to which somebody, or git's protection, attached a rule about what is in them.
fn covered_directories(view: &View) -> impl Iterator<Item = &Path> {
    let denials = view.denials().filter(|(_, rule, _)| matches!(rule, Rule::Protect | Rule::Mask));
    denials.filter(|(.., kind)| *kind == FileKind::Directory).map(|(at, ..)| at)
}

/// Files below `top` with a name elsewhere, as far as `left` entries.
fn linked(top: &Path, view: &View, image: Option<&Path>, left: &mut usize) -> Vec<PathBuf> {
    let mut files: HashMap<(u64, u64), (u64, PathBuf)> = HashMap::new();
    let mut directories = vec![top.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if *left == 0 {
                break;
            }
            *left -= 1;
            let path = entry.path();
            // What has a rule of its own is looked at, or shown, for itself.
            if view.decides(&path).is_some_and(|(at, _)| at == path) || Some(path.as_path()) == image {
                continue;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                directories.push(path);
            } else if metadata.nlink() > 1 {
                let seen = files.entry((metadata.dev(), metadata.ino())).or_insert((metadata.nlink(), path));
                seen.0 = seen.0.saturating_sub(1);
            }
        }
    }
    // All names of some are in here.
    let mut linked: Vec<_> =
        files.into_values().filter(|(elsewhere, _)| *elsewhere > 0).map(|(_, path)| path).collect();
    linked.sort_unstable();
    linked
}
