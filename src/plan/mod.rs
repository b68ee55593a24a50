//! Policy and host, resolved: absolute, ordered, nothing left to decide.
//!
//! Reads the host's files, changes none. A plan exists only when no protection that is needed is missing.

mod absolute;
pub mod base;
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
use crate::policy::Network;
use env::Environment;
use target::Target;

/// One run under one backend, decided to the last detail.
#[derive(Debug)]
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
