//! Policy and host, resolved: absolute, ordered, nothing left to decide.
//!
//! Reads the host's files, changes none. A plan exists only when no protection that is needed is missing.

mod absolute;
pub mod base;
pub mod bounds;
mod build;
pub mod closed;
mod contained;
pub mod env;
pub mod gap;
pub mod git;
mod hard_links;
mod heed;
pub mod hidden;
pub mod image;
pub mod links;
mod listing;
mod obeyed;
mod path_map;
mod patterns;
pub mod reach;
pub mod resolve;
mod secrets;
mod streams;
pub mod target;
pub mod trace;
mod tracked;
pub mod view;
pub mod way_out;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use absolute::absolute;
pub(crate) use build::expand;
pub use gap::Gap;
pub use heed::heed;
pub use resolve::resolve;
pub use view::MountOp;

use crate::backend::Backend;
use crate::host::mounts::Mounts;
use crate::policy::{ImageName, Limits, Network, Origin};
use crate::stage::cgroup::Mechanism;
use env::Environment;
use reach::Reach;
use target::Target;
use trace::Tracing;
use view::{Rule, View};
use way_out::WayOut;

/// One run under one backend, decided to the last detail.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct Plan {
    /// Who enforces it.
    pub backend: Backend,
    /// The program and what it needs to start.
    pub target: Target,
    /// Its arguments, `argv[0]` as typed first.
    pub argv: Vec<OsString>,
    /// Where it starts: absolute, without links.
    pub workdir: PathBuf,
    /// Its variables, and what became of the others.
    pub environment: Environment,
    /// Mount operations in order; empty when the backend has no view of its own.
    pub view: Vec<MountOp>,
    /// Masks, pins and protects among them that the inner stage mounts, when there are many: to bubblewrap each costs a look at all
    /// other mounts, and a mask a descriptor.
    pub covers: BTreeSet<PathBuf>,
    /// Device nodes, and directories of them, that the inner stage makes read-only: mode and owner of root's are root's to change.
    pub frozen: Vec<PathBuf>,
    /// What Landlock lets the target do, where that stands for a view.
    pub reach: Option<Reach>,
    /// Our own executable, where it is executed by name: from a read-only mount in the view, when the caller can change it and
    /// cannot mount, or at its own place, when nothing is mounted.
    pub image: Option<PathBuf>,
    /// What stands beneath the view, in a container.
    pub container: Option<Container>,
    /// The rules that they carry out, for whoever has to explain them.
    pub rules: View,
    /// How the target is traced, if it is.
    pub trace: Option<Tracing>,
    /// What is mounted on the host: by which other names one reaches a place.
    pub mounts: Arc<Mounts>,
    /// Directories to make on the host first; the view counts them as there.
    pub create: Vec<Create>,
    /// Files in write grants that git on the host, or a later run, would obey and that do not exist: nothing can be mounted there,
    /// so what is made of them is moved aside after the run.
    pub absent: BTreeSet<Absent>,
    /// What lets git recognise repositories in write grants: what the command took away of it is made again after the run.
    pub recognised: git::whole::Recognised,
    /// What a protect names in a write grant, who wants it, and that it does not exist: nothing can be mounted there either. It may
    /// be the host that makes it meanwhile, so it is told and left.
    pub unprotected: Vec<(PathBuf, Origin)>,
    /// What the inner stage has to find at these paths before it starts the target.
    pub checks: Vec<Check>,
    /// Names that the scan found, hidden in the view.
    pub hidden: hidden::Scan,
    /// Host network or none.
    pub network: Network,
    /// By which way requests leave a network that is off.
    pub way_out: Option<WayOut>,
    /// Whether the process list of the host shows through, because no new `/proc` can be mounted here.
    pub host_processes: bool,
    /// Whether abstract sockets have to be closed by other means than a network of its own.
    pub scope_sockets: bool,
    /// Whether the target gets a session of its own.
    pub new_session: bool,
    /// Descriptors above 2 that cross.
    pub keep_fds: BTreeSet<i32>,
    /// Grace between a termination signal and SIGKILL.
    pub kill_after: Duration,
    /// How much it may use; what is not enforced here is no longer among them.
    pub limits: Limits,
    /// How the target's tree gets a control group, where a limit or the count of processor time takes one.
    pub cgroup: Option<Mechanism>,
    /// Whether the number of processes is bounded by a resource limit, which counts those of the sandbox only.
    pub procs_by_rlimit: bool,
    /// What is not enforced, by consent.
    pub gaps: Vec<Gap>,
    /// What a careful caller should hear of.
    pub warnings: Vec<String>,
    /// What explains surprises; shown with `-v`.
    pub notes: Vec<String>,
}

/// What an image is used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its root stands beneath the view, and it has the programs.
    pub image: ImageName,
    /// Whether its `PATH` is that of the target.
    pub path_of_image: bool,
}

/// What must not be there after the run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Absent {
    /// Absolute, without links, and mounted so that it keeps its name.
    pub directory: PathBuf,
    /// In it, possibly several directories down.
    pub name: PathBuf,
    /// Permission bits of the directory before the run.
    pub mode: u32,
    /// Whether only a link may not be there.
    pub links_only: bool,
    /// Who on the host would obey it.
    pub obeyed_by: &'static str,
}

/// A directory that is still to be made on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// Where: absolute, without links.
    pub path: PathBuf,
    /// The highest directory on the way that does not exist.
    pub first: PathBuf,
    /// Who wants it.
    pub origin: Origin,
}

impl Plan {
    /// The mount operations that are left to the launcher program, in order.
    pub fn by_launcher(&self) -> impl Iterator<Item = &MountOp> {
        self.view.iter().filter(|op| match op {
            MountOp::EmptyFile { at }
            | MountOp::Tmpfs { at, .. }
            | MountOp::ReadOnly { at }
            | MountOp::Bind { at, .. } => !self.covers.contains(at),
            MountOp::Dir { .. }
            | MountOp::Link { .. }
            | MountOp::Copy { .. }
            | MountOp::Proc { .. }
            | MountOp::Dev { .. }
            | MountOp::Queues { .. } => true,
        })
    }

    /// Leaves out of the view what lies in directories that are still to be made: for whoever tries the plan and makes nothing.
    pub fn without_created(&mut self) {
        let create = &self.create;
        let to_be_made = |path: &Path| create.iter().any(|made| path.starts_with(&made.first));
        self.view.retain(|op| !to_be_made(op.at()));
        if let Some(reach) = &mut self.reach {
            reach.rules.retain(|rule| !to_be_made(&rule.path));
        }
    }

    /// Places inside that the target can write, the sandbox's own included.
    pub fn walls(&self) -> impl Iterator<Item = &Path> {
        self.view.iter().filter_map(|op| match op {
            MountOp::Bind { at, write: true, .. }
            | MountOp::Proc { at }
            | MountOp::Dev { at }
            | MountOp::Queues { at } => Some(at.as_path()),
            // Read-only by its own mount, and needed for `/proc/self`.
            MountOp::Bind { at, .. } if at == Path::new("/proc") => Some(at.as_path()),
            MountOp::Tmpfs { at, mode, .. } if *mode != view::MASK_MODE => Some(at.as_path()),
            MountOp::Bind { .. }
            | MountOp::Tmpfs { .. }
            | MountOp::Dir { .. }
            | MountOp::Link { .. }
            | MountOp::Copy { .. }
            | MountOp::EmptyFile { .. }
            | MountOp::ReadOnly { .. } => None,
        })
    }

    /// How many processes of our own are in the sandbox because somebody else's proxy is outside.
    #[must_use]
    pub fn relays(&self) -> u64 {
        u64::from(matches!(&self.way_out, Some(WayOut { to: way_out::To::Socket(_), .. })))
    }

    /// Whether rules hold on the host's own files as they are written, and nothing is mounted.
    fn on_host(&self) -> bool {
        self.backend.keeps_rules() && !self.backend.has_view() && self.reach.is_none()
    }

    /// Directories of the run's own that have to be made on the host, since nothing is mounted.
    pub fn private_places(&self) -> impl Iterator<Item = &Path> {
        let own = self.rules.placed().filter(|_| self.backend == Backend::Seatbelt);
        own.filter(|placed| matches!(placed.rule, view::Rule::Own(_))).map(|placed| placed.at)
    }

    /// Whether the target can write what the host has at `path`, which is absolute and without links.
    #[must_use]
    pub fn lets_write(&self, path: &Path) -> bool {
        self.written_as(path).is_some()
    }

    /// The name by which the target can write what the host has at `path`, which is absolute and without links: that one, or
    /// another one that a mount of the host gives it.
    #[must_use]
    pub fn written_as(&self, path: &Path) -> Option<PathBuf> {
        if let Some(reach) = &self.reach {
            let mut names = std::iter::once(path.to_owned()).chain(self.other_names(path));
            return names.find(|name| reach.gives(name, false)[1]);
        }
        let writable = |name: &PathBuf| {
            let mounted = matches!(self.deciding(name), Some((_, MountOp::Bind { write: true, device: false, .. })));
            mounted || (self.on_host() && self.rules.writable(name))
        };
        let mounted = matches!(self.deciding(path), Some((_, MountOp::Bind { write: true, .. })));
        if mounted || (self.on_host() && self.rules.writable(path)) {
            return Some(path.to_owned());
        }
        self.other_names(path).into_iter().find(writable)
    }

    /// What else `path` is called on the host. Nothing need be there yet.
    fn other_names(&self, path: &Path) -> Vec<PathBuf> {
        let mut names = self.mounts.names_of_entry(path, true);
        names.extend(self.mounts.names(path, true));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Makes what the host has at `path`, absolute and without links, read-only by every name by which it could be written: a
    /// file that is there when the launcher comes to it.
    pub fn forbid_writing(&mut self, path: &Path) {
        while let Some(at) = self.written_as(path) {
            if self.on_host() {
                self.rules.add(&at, Rule::Protect, view::FileKind::File);
                continue;
            }
            let seals =
                self.view.iter().position(|op| matches!(op, MountOp::ReadOnly { .. })).unwrap_or(self.view.len());
            self.view.insert(seals, MountOp::Bind { from: at.clone(), at, write: false, device: false });
        }
    }

    /// The name by which `path` itself is mounted read-only.
    #[must_use]
    pub fn forbidden_as(&self, path: &Path) -> Option<PathBuf> {
        std::iter::once(path.to_owned()).chain(self.other_names(path)).find(|name| self.forbids_writing(name))
    }

    /// Whether `path` itself is mounted read-only.
    #[must_use]
    pub fn forbids_writing(&self, path: &Path) -> bool {
        if self.on_host() {
            return self.rules.decides(path).is_some_and(|(at, rule)| at == path && *rule == Rule::Protect);
        }
        matches!(self.deciding(path), Some((at, MountOp::Bind { write: false, .. })) if at == path)
    }

    /// Whether the target sees what the host has at `path`, which is absolute and without links.
    #[must_use]
    pub fn shows(&self, path: &Path) -> bool {
        let mounted =
            |path: &Path| matches!(self.deciding(path), Some((_, MountOp::Bind { .. } | MountOp::Copy { .. })));
        let shows = |path: &Path| match &self.reach {
            Some(reach) => reach.gives(path, false)[0],
            None if self.on_host() => self.rules.shows(path),
            None => mounted(path),
        };
        shows(path) || self.mounts.names(path, false).iter().any(|name| shows(name))
    }

    /// Whether the target can give the name `path`, absolute and without links before its last part, to something else.
    #[must_use]
    pub fn lets_rename(&self, path: &Path) -> bool {
        let lets = |path: &Path| {
            if let Some(reach) = &self.reach {
                return path.parent().is_some_and(|above| reach.gives(above, false)[1]);
            }
            if self.on_host() {
                // What a rule is about keeps its name.
                let held = self.rules.decides(path).is_some_and(|(at, _)| at == path);
                return !held && path.parent().is_some_and(|above| self.rules.writable(above));
            }
            // What is mounted on cannot be renamed or removed (EBUSY, rename(2)).
            let held = self.deciding(path).is_some_and(|(at, _)| at == path);
            let above = path.parent().and_then(|above| self.deciding(above));
            !held && matches!(above, Some((_, MountOp::Bind { write: true, .. })))
        };
        lets(path) || self.mounts.names_of_entry(path, true).iter().any(|name| lets(name))
    }

    /// The last operation that says what is at `path`, and its place. Deeper places come later.
    fn deciding(&self, path: &Path) -> Option<(&Path, &MountOp)> {
        let mut places = self.view.iter().filter_map(|op| match op {
            MountOp::Tmpfs { at, .. }
            | MountOp::Bind { at, .. }
            | MountOp::Copy { at, .. }
            | MountOp::Proc { at }
            | MountOp::Dev { at }
            | MountOp::Queues { at }
            | MountOp::EmptyFile { at } => Some((at.as_path(), op)),
            MountOp::Dir { .. } | MountOp::Link { .. } | MountOp::ReadOnly { .. } => None,
        });
        places.rfind(|(at, _)| path.starts_with(at))
    }

    /// Places of the host that the target can write.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        let by_rules = self.rules.placed().filter(|placed| self.on_host() && *placed.rule == Rule::Write);
        let by_rules = by_rules.map(|placed| placed.at).chain(self.reach.iter().flat_map(Reach::writable));
        let mounted = self.view.iter().filter_map(|op| match op {
            MountOp::Bind { from, write: true, device: false, .. } => Some(from.as_path()),
            MountOp::Bind { .. }
            | MountOp::Tmpfs { .. }
            | MountOp::Dir { .. }
            | MountOp::Link { .. }
            | MountOp::Copy { .. }
            | MountOp::Proc { .. }
            | MountOp::Dev { .. }
            | MountOp::Queues { .. }
            | MountOp::EmptyFile { .. }
            | MountOp::ReadOnly { .. } => None,
        });
        mounted.chain(by_rules)
    }
}

/// A promise of the view that can be checked from inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Absolute, without links.
    pub path: PathBuf,
    /// Device of the host's file there, or what [`identity`] has in its place.
    pub device: u64,
    /// Inode of the host's file there, or what [`identity`] has in its place.
    pub inode: u64,
    /// When it was last changed, in seconds and nanoseconds: for whoever made the plan.
    pub changed: (i64, i64),
    /// What must be there.
    pub held: Held,
    /// Whether the inner stage has to mount that itself.
    pub covered: bool,
}

/// Two numbers by which the file at `path` is known again inside: of its file system, where it is the host's file.
///
/// In /dev an engine of containers (`by_engine`) makes a node of its own, which is the same device by its own number, and
/// directories to put it in.
#[must_use]
pub fn identity(path: &Path, found: &std::fs::Metadata, held: Held, by_engine: bool) -> (u64, u64) {
    let kind = found.file_type();
    let remade = kind.is_char_device() || kind.is_block_device() || kind.is_dir() && held != Held::Hidden;
    let remade = by_engine && remade && view::is_of_devices(path);
    if remade { own_number(found) } else { (found.dev(), found.ino()) }
}

/// Two numbers by which a device is known again, whatever node of it is looked at: its own, and one of its kind that no inode has.
#[must_use]
pub fn own_number(found: &std::fs::Metadata) -> (u64, u64) {
    (found.rdev(), u64::MAX - u64::from(found.mode() >> 12))
}

/// What a promise of the view is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Held {
    /// The host's file.
    Shown,
    /// Anything but the host's file.
    Hidden,
    /// The host's file, mounted on itself so that nobody renames it.
    Pinned,
    /// The host's file, which cannot be written.
    Protected,
}
