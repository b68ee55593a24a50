//! Which names that begin with a dot are visible below the working directory and grants.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

/// What to do when a scan reaches its limit before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Refuse to start.
    Error,
    /// Start with what was found, and say so.
    Warn,
    /// There is no limit.
    Unlimited,
}

impl Overflow {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Error, Self::Warn, Self::Unlimited];

    /// The word in files and on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Unlimited => "unlimited",
        }
    }
}

/// Names that stay visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Every name: nothing is scanned.
    All,
    /// These, each a single path component.
    Names(BTreeSet<OsString>),
}

/// Whether a file of this name is hidden at all.
#[must_use]
pub fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// The rule about hidden names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// Names that stay visible.
    pub shown: Shown,
    /// How many directory entries a scan looks at.
    pub max_entries: u64,
    /// What happens at that number.
    pub overflow: Overflow,
    /// Whether directories below the top of each scanned place are looked at as well.
    pub recursive: bool,
}

/// How many directory entries a scan looks at when nothing else was asked for.
pub const DEFAULT_MAX_ENTRIES: u64 = 50_000;

/// Names that stay visible when a policy leaves the list to us: what tools need and what holds no secret by custom.
pub const DEFAULT_SHOWN: &[&str] = &[
    ".cargo",
    ".clang-format",
    ".dockerignore",
    ".editorconfig",
    ".eslintrc.json",
    ".git",
    ".gitattributes",
    ".github",
    ".gitignore",
    ".gitlab-ci.yml",
    ".gitmodules",
    ".node-version",
    ".nvmrc",
    ".prettierrc",
    ".python-version",
    ".ruby-version",
    ".tool-versions",
    ".venv",
];
