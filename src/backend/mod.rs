//! The mechanisms that enforce a plan, and how far each one does.
//!
//! The set is closed: an enum, one match to launch. Each backend has a file with the same three parts in the same order:
//! `strength`, a constant table; `launch`, pure, from plan to what starts it; private functions.

#[cfg(unix)]
pub mod bwrap;
#[cfg(unix)]
pub mod container;
mod engine;
pub mod jobobject;
#[cfg(unix)]
pub mod landlock;
#[cfg(unix)]
pub mod namespace;
#[cfg(unix)]
pub mod none;
#[cfg(unix)]
pub mod sbpl;
#[cfg(unix)]
pub mod seatbelt;
#[cfg(unix)]
mod unix;

use std::fmt;
use std::str::FromStr;

pub use engine::Engine;
#[cfg(unix)]
pub use unix::{Tools, check_size, launch};

/// A mechanism that starts the target under a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// bubblewrap: namespaces set up by the program `bwrap`.
    Bwrap,
    /// The same namespaces, set up by this program itself.
    Namespace,
    /// Landlock and the system-call filter in the process itself: for hosts that allow no namespaces.
    Landlock,
    /// Seatbelt of macOS: a profile that the kernel holds every path against, applied by `sandbox-exec`.
    Seatbelt,
    /// A job object of Windows: the tree of processes and its limits, neither files nor network.
    JobObject,
    /// A container, by podman or docker.
    Container(Engine),
    /// No isolation: environment, descriptors, signals and exit status only.
    None,
}

impl Backend {
    /// Every backend, in the order of the tables.
    pub const ALL: [Self; 7] = [
        Self::Bwrap,
        Self::Namespace,
        Self::Landlock,
        Self::Seatbelt,
        Self::Container(Engine::Any),
        Self::JobObject,
        Self::None,
    ];

    /// Every backend by each name that it is reported under.
    pub const NAMED: [Self; 9] = [
        Self::Bwrap,
        Self::Namespace,
        Self::Landlock,
        Self::Seatbelt,
        Self::Container(Engine::Any),
        Self::Container(Engine::Podman),
        Self::Container(Engine::Docker),
        Self::JobObject,
        Self::None,
    ];

    /// What `auto` tries, in this order. Never `none`: no sandbox must be asked for by name.
    pub const AUTO: &'static [Self] = if cfg!(windows) {
        &[Self::JobObject]
    } else if cfg!(target_os = "macos") {
        &[Self::Seatbelt]
    } else {
        &[Self::Bwrap, Self::Namespace, Self::Landlock]
    };

    /// The word on the command line and in tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Bwrap => "bwrap",
            Self::Namespace => "namespace",
            Self::Landlock => "landlock",
            Self::Seatbelt => "seatbelt",
            Self::Container(engine) => engine.word(),
            Self::JobObject => "jobobject",
            Self::None => "none",
        }
    }

    /// The system without which it is nothing or text only, and that system as people call it; `None` when this program runs nowhere else.
    #[must_use]
    pub fn elsewhere(self) -> Option<&'static str> {
        match self {
            Self::Bwrap | Self::Namespace | Self::Landlock | Self::Container(_) if std::env::consts::OS != "linux" => {
                Some("Linux")
            }
            Self::Seatbelt if std::env::consts::OS != "macos" => Some("macOS"),
            Self::JobObject if !cfg!(windows) => Some("Windows"),
            Self::Bwrap
            | Self::Namespace
            | Self::Landlock
            | Self::Seatbelt
            | Self::Container(_)
            | Self::JobObject
            | Self::None => None,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The text names no backend.
#[derive(Debug)]
pub struct UnknownBackend;

impl FromStr for Backend {
    type Err = UnknownBackend;

    /// Accepts our words and those of systems whose settings people bring along.
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        match text {
            "bwrap" | "bubblewrap" | "linux_bwrap" => Ok(Self::Bwrap),
            "namespace" => Ok(Self::Namespace),
            "landlock" => Ok(Self::Landlock),
            "seatbelt" | "sandbox-exec" | "sandbox_exec" | "darwin_seatbelt" => Ok(Self::Seatbelt),
            "container" => Ok(Self::Container(Engine::Any)),
            "podman" => Ok(Self::Container(Engine::Podman)),
            "docker" => Ok(Self::Container(Engine::Docker)),
            "jobobject" | "windows_jobobject" => Ok(Self::JobObject),
            "none" | "native" | "direct" => Ok(Self::None),
            _ => Err(UnknownBackend),
        }
    }
}
