//! File systems of the kernel, wherever below a grant they are mounted: what is written there sets the machine and what is read
//! tells of its processes, whoever's tree it is.
//!
//! Adds nothing where a rule speaks of the very place.

use std::path::{Path, PathBuf};

use super::super::view::{FileKind, Rule};
use super::{Builder, reserved};

/// Those that show the host's processes, or what the kernel knows of them: hidden below any wider grant.
const TELLING: &[&str] = &["bpf", "debugfs", "proc", "pstore", "tracefs"];

/// Those that set the machine, or are another's devices: not to be written below a wider grant.
const SETTING: &[&str] = &[
    "binfmt_misc",
    "cgroup",
    "cgroup2",
    "configfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "functionfs",
    "fusectl",
    "mqueue",
    "nfsd",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "sysfs",
];

impl Builder<'_> {
    /// Hides or write-protects each that a wider rule shows.
    pub(super) fn machinery(&mut self) {
        let mounts = self.host.mounts();
        let rules: Vec<(PathBuf, Rule)> = mounts
            .of_kind(|kind| TELLING.contains(&kind) || SETTING.contains(&kind))
            .filter(|(point, _)| !reserved(point) && self.view.decides(point).is_some_and(|(at, _)| at != *point))
            .filter_map(|(point, kind)| {
                if TELLING.contains(&kind) {
                    self.view.shows(point).then(|| (point.to_owned(), Rule::Secret))
                } else {
                    self.view.writable(point).then(|| (point.to_owned(), Rule::Protect))
                }
            })
            .collect();
        for (point, rule) in rules {
            self.notes.push(format!(
                "'{}' is a file system of the kernel and {} below a wider grant",
                point.display(),
                if rule == Rule::Secret { "hidden" } else { "not to be written" }
            ));
            let file = std::fs::symlink_metadata(&point).is_ok_and(|found| !found.is_dir());
            self.view.add(&point, rule, if file { FileKind::File } else { FileKind::Directory });
        }
    }

    /// Whether `path`, which names no link, lies in a file system that shows processes: another `/proc`.
    pub(super) fn shows_processes(&self, path: &Path) -> bool {
        self.host.mounts().kind(path) == Some("proc")
    }
}
