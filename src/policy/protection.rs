//! The protections a policy can need: the words of `--allow-gap` and of every table.

use std::fmt;
use std::str::FromStr;

/// One thing that a backend enforces, in part or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protection {
    /// Only granted paths can be read.
    FilesRead,
    /// Only paths with a write grant can be written.
    FilesWrite,
    /// Masked paths cannot be seen.
    Masks,
    /// The host's network cannot be reached.
    Network,
    /// Unix sockets of the host cannot be reached unless allowed.
    Sockets,
    /// Processes outside cannot be seen or signalled, and none inside outlives the run.
    Processes,
    /// No capability, no setuid, no new user namespace, no terminal injection.
    Privileges,
    /// Only allowed variables are inherited.
    Environment,
    /// The tree uses no more memory than its limit.
    Memory,
    /// Processor time ends at its limit.
    Cpu,
    /// There are no more processes than the limit.
    Procs,
    /// No file grows beyond the limit.
    FileSize,
    /// No process has more descriptors than the limit.
    OpenFiles,
    /// No more output than the limit is passed on.
    Output,
    /// The run ends at its time limit, with everything in it.
    Time,
}

impl Protection {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 15] = [
        Self::FilesRead,
        Self::FilesWrite,
        Self::Masks,
        Self::Network,
        Self::Sockets,
        Self::Processes,
        Self::Privileges,
        Self::Environment,
        Self::Memory,
        Self::Cpu,
        Self::Procs,
        Self::FileSize,
        Self::OpenFiles,
        Self::Output,
        Self::Time,
    ];

    /// The word on the command line and in tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::FilesRead => "files-read",
            Self::FilesWrite => "files-write",
            Self::Masks => "masks",
            Self::Network => "network",
            Self::Sockets => "sockets",
            Self::Processes => "processes",
            Self::Privileges => "privileges",
            Self::Environment => "environment",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Procs => "procs",
            Self::FileSize => "file-size",
            Self::OpenFiles => "open-files",
            Self::Output => "output",
            Self::Time => "time",
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The text is not one of [`Protection::ALL`].
#[derive(Debug)]
pub struct UnknownProtection;

impl FromStr for Protection {
    type Err = UnknownProtection;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|p| p.word() == text).ok_or(UnknownProtection)
    }
}

/// What is missing where processor time is a resource limit.
pub const PER_PROCESS: &str =
    "where no control group can be made, each process has its own count, and a fork begins a new one";

/// How far a backend enforces one protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Wholly, by the kernel.
    Enforced,
    /// Enforced but for what the text says.
    Partial(&'static str),
    /// Not at all.
    Absent,
}

impl Strength {
    /// The word of the tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Partial(_) => "partial",
            Self::Absent => "absent",
        }
    }
}
