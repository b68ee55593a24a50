//! Policy and host, resolved: absolute, ordered, nothing left to decide.
//!
//! Reads the host's files, changes none. A plan exists only when no protection that is needed is missing.

mod absolute;
pub mod base;
pub mod bounds;
mod build;
pub mod env;
pub mod gap;
pub mod hidden;
mod image;
pub mod links;
pub mod resolve;
pub mod target;
pub mod view;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use absolute::absolute;
pub(crate) use build::expand;
pub use gap::Gap;
pub use resolve::resolve;
pub use view::MountOp;

use crate::backend::Backend;
use crate::policy::{Limits, Network};
use crate::stage::cgroup::Mechanism;
use env::Environment;
use target::Target;

/// One run under one backend, decided to the last detail.
#[derive(Debug)]
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
    /// Directories to make on the host first.
    pub create: Vec<PathBuf>,
    /// What the inner stage has to find at these paths before it starts the target.
    pub checks: Vec<Check>,
    /// Names that the scan found, hidden in the view.
    pub hidden: hidden::Scan,
    /// Host network or none.
    pub network: Network,
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

impl Plan {
    /// Places inside that the target can write, the sandbox's own included.
    pub fn walls(&self) -> impl Iterator<Item = &std::path::Path> {
        self.view.iter().filter_map(|op| match op {
            MountOp::Bind { at, write: true, .. } | MountOp::Proc { at } | MountOp::Dev { at } => Some(at.as_path()),
            // Read-only by its own mount, and needed for `/proc/self`.
            MountOp::Bind { at, .. } if at == std::path::Path::new("/proc") => Some(at.as_path()),
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

    /// Whether the target can write what the host has at `path`, which is absolute and without links.
    #[must_use]
    pub fn lets_write(&self, path: &std::path::Path) -> bool {
        // Deeper places come later.
        let deciding = self.view.iter().rfind(|op| match op {
            MountOp::Tmpfs { at, .. }
            | MountOp::Bind { at, .. }
            | MountOp::Copy { at, .. }
            | MountOp::Proc { at }
            | MountOp::Dev { at }
            | MountOp::EmptyFile { at } => path.starts_with(at),
            MountOp::Dir { .. } | MountOp::Link { .. } | MountOp::ReadOnly { .. } => false,
        });
        matches!(deciding, Some(MountOp::Bind { write: true, .. }))
    }

    /// Places of the host that the target can write.
    pub fn writable(&self) -> impl Iterator<Item = &std::path::Path> {
        self.view.iter().filter_map(|op| match op {
            MountOp::Bind { from, write: true, device: false, .. } => Some(from.as_path()),
            MountOp::Bind { .. }
            | MountOp::Tmpfs { .. }
            | MountOp::Dir { .. }
            | MountOp::Link { .. }
            | MountOp::Copy { .. }
            | MountOp::Proc { .. }
            | MountOp::Dev { .. }
            | MountOp::EmptyFile { .. }
            | MountOp::ReadOnly { .. } => None,
        })
    }
}

/// A promise of the view that can be checked from inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Absolute, without links.
    pub path: PathBuf,
    /// Device of the host's file there.
    pub device: u64,
    /// Inode of the host's file there.
    pub inode: u64,
    /// Whether the path must be this file (a grant) or must not be it (a mask).
    pub same: bool,
}
