//! The mechanisms that enforce a plan, and how far each one does.
//!
//! The set is closed: an enum, one match to launch. Each backend has a file with the same three parts in the same order:
//! `strength`, a constant table; `launch`, pure, from plan to [`Launch`]; private functions.

pub mod bwrap;
pub mod landlock;
pub mod none;
pub mod sbpl;
pub mod seatbelt;

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Kind, Result};
use crate::launch::Launch;
use crate::plan::Plan;
use crate::policy::Protection;
use crate::policy::protection::Strength;

/// A mechanism that starts the target under a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// bubblewrap: namespaces set up by the program `bwrap`.
    Bwrap,
    /// Landlock and the system-call filter in the process itself: for hosts that allow no namespaces.
    Landlock,
    /// Seatbelt of macOS: a profile that the kernel holds every path against, applied by `sandbox-exec`.
    Seatbelt,
    /// No isolation: environment, descriptors, signals and exit status only.
    None,
}

impl Backend {
    /// Every backend, in the order of the tables.
    pub const ALL: [Self; 4] = [Self::Bwrap, Self::Landlock, Self::Seatbelt, Self::None];

    /// What `auto` tries, in this order. Never `none`: no sandbox must be asked for by name.
    pub const AUTO: &'static [Self] =
        if cfg!(target_os = "macos") { &[Self::Seatbelt] } else { &[Self::Bwrap, Self::Landlock] };

    /// The word on the command line and in tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
            Self::Seatbelt => "seatbelt",
            Self::None => "none",
        }
    }

    /// How far this backend enforces `protection` where it works at all.
    #[must_use]
    pub fn strength(self, protection: Protection) -> Strength {
        match self {
            Self::Bwrap => bwrap::strength(protection),
            Self::Landlock => landlock::strength(protection),
            Self::Seatbelt => seatbelt::strength(protection),
            Self::None => none::strength(protection),
        }
    }

    /// How many processes of our own are beside the target: the launcher program, or the warden, and the inner stage, or that
    /// alone.
    #[must_use]
    pub fn own_processes(self) -> u64 {
        match self {
            Self::Bwrap | Self::Landlock => 2,
            // `sandbox-exec` becomes the inner stage.
            Self::Seatbelt | Self::None => 1,
        }
    }

    /// Whether the target sees a file view and processes of its own.
    #[must_use]
    pub fn has_view(self) -> bool {
        match self {
            Self::Bwrap => true,
            Self::Landlock | Self::Seatbelt | Self::None => false,
        }
    }

    /// Whether the rules of a plan about paths hold: by a view, or by permissions on the host's own files.
    #[must_use]
    pub fn keeps_rules(self) -> bool {
        match self {
            Self::Bwrap | Self::Landlock | Self::Seatbelt => true,
            Self::None => false,
        }
    }

    /// Whether the filter of system calls is put on the target, and nothing of a run outlives it.
    #[must_use]
    pub fn filters(self) -> bool {
        match self {
            Self::Bwrap | Self::Landlock => true,
            Self::Seatbelt | Self::None => false,
        }
    }

    /// The system without which it is nothing or text only, and that system as people call it; `None` when this program runs nowhere else.
    #[must_use]
    pub fn elsewhere(self) -> Option<&'static str> {
        match self {
            Self::Bwrap | Self::Landlock if std::env::consts::OS != "linux" => Some("Linux"),
            Self::Seatbelt if std::env::consts::OS != "macos" => Some("macOS"),
            Self::Bwrap | Self::Landlock | Self::Seatbelt | Self::None => None,
        }
    }
}

/// What it takes to start `plan`, or why its backend cannot say it. `tools` holds what was found of the programs that backends need.
pub fn launch(plan: &Plan, tools: &Tools) -> Result<Launch> {
    match plan.backend {
        Backend::Bwrap => Ok(bwrap::launch(plan, &tools.bwrap, tools.features)),
        Backend::Landlock => Ok(landlock::launch(plan)),
        Backend::Seatbelt => seatbelt::launch(plan),
        Backend::None => Ok(none::launch(plan)),
    }
}

/// Refuses a launch that its program would refuse, with the numbers.
pub fn check_size(launch: &Launch) -> Result<()> {
    let Launch::Program(command) = launch else { return Ok(()) };
    let words = 1 + command.arguments.len() + command.options.len();
    if command.options.is_empty() || words <= bwrap::MAX_WORDS {
        return Ok(());
    }
    Err(Error::text(
        Kind::Backend,
        format!("cannot pass the plan to bwrap: it takes {words} words, and bwrap reads at most {}", bwrap::MAX_WORDS),
    )
    .hint("grant or mask directories instead of many files"))
}

/// Programs that backends need, and what these can do.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Absolute path of `bwrap`.
    pub bwrap: std::path::PathBuf,
    /// What it can do.
    pub features: bwrap::Features,
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
            "landlock" => Ok(Self::Landlock),
            "seatbelt" | "sandbox-exec" | "sandbox_exec" | "darwin_seatbelt" => Ok(Self::Seatbelt),
            "none" | "native" | "direct" => Ok(Self::None),
            _ => Err(UnknownBackend),
        }
    }
}
