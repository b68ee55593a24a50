//! Grants, masks and protects as they were written.

use std::path::PathBuf;

use super::Origin;

/// What a grant gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// See and read.
    Read,
    /// See, read and write.
    Write,
}

/// What to do when the path of a grant does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// Refuse to start.
    Refuse,
    /// Leave the grant out, with a note.
    Skip,
    /// Make the directory on the host first.
    Create,
}

/// A path and an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// As written: may begin with `~/`, may be relative, is never empty.
    pub path: PathBuf,
    /// Read, or read and write.
    pub access: Access,
    /// What a missing path means.
    pub missing: Missing,
    /// Whether the path must be a file: a directory is refused.
    pub file_only: bool,
    /// Who asked.
    pub origin: Origin,
}

/// A path with a rule attached to it: a mask, a protect, a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// As written: may begin with `~/`, may be relative, is never empty.
    pub path: PathBuf,
    /// Who asked.
    pub origin: Origin,
}

/// Everything the policy says about files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRules {
    /// In the order given; the most specific path decides, not the order.
    pub grants: Vec<Grant>,
    /// Paths that must not be visible.
    pub masks: Vec<PathRule>,
    /// Paths inside write grants that must not be written.
    pub protects: Vec<PathRule>,
    /// Size of each private tmpfs (`/tmp`, HOME, `/dev/shm`), in bytes; `None` is [`DEFAULT_TMP_SIZE`].
    pub tmp_size: Option<u64>,
}

/// Size of a private tmpfs when nothing else was asked for, in bytes.
pub const DEFAULT_TMP_SIZE: u64 = 1 << 30;
