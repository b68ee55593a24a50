//! The same rule under every name that a mount of the host gives to what it takes away.
//!
//! Knows mounts only: further hard links of a file are told of, and nobody looks for them.

use std::path::Path;

use super::super::hidden::list;
use super::super::view::{FileKind, Rule};
use super::Builder;

impl Builder<'_> {
    /// Hides and protects what was hidden and protected, where it can be reached by a mount as well. A grant of such a name by
    /// itself decides as it would about the first.
    pub fn second_names(&mut self) {
        let mounts = self.host.mounts();
        if !mounts.give_second_names() {
            return;
        }
        let denials: Vec<_> = self.view.denials().map(|(at, rule, kind)| (at.to_owned(), rule.clone(), kind)).collect();
        let mut covered = Vec::new();
        for (at, rule, kind) in denials {
            let write = rule == Rule::Protect;
            let mut names: Vec<_> = mounts.names(&at, write).into_iter().map(|name| (name, kind)).collect();
            if kind == FileKind::Directory {
                let parts = mounts.parts(&at, write).into_iter();
                names.extend(
                    parts.filter_map(|part| Some((part.clone(), FileKind::of(&std::fs::metadata(part).ok()?)))),
                );
            }
            for (name, kind) in names {
                let open = if write { self.view.writable(&name) } else { self.view.shows(&name) };
                if open && name != Path::new("/") {
                    self.view.add(&name, rule.clone(), kind);
                    let open = if write { self.view.writable(&name) } else { self.view.shows(&name) };
                    if open {
                        self.warnings.push(format!(
                            "'{}' is the same as '{}', by a mount, and granted by itself: it stays open",
                            name.display(),
                            at.display()
                        ));
                    } else {
                        covered.push(name);
                    }
                }
            }
        }
        if !covered.is_empty() {
            self.notes.push(format!(
                "hidden or protected as well, since a mount shows the same there: {}",
                list(covered.iter().map(std::path::PathBuf::as_path))
            ));
        }
    }
}
