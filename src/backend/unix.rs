//! How far each backend enforces a plan, and what it takes to start one, where the system is a Unix.

use super::{Backend, bwrap, container, jobobject, landlock, namespace, none, seatbelt};
use crate::error::{Error, Kind, Result};
use crate::launch::Launch;
use crate::plan::Plan;
use crate::policy::Protection;
use crate::policy::protection::Strength;

impl Backend {
    /// How far this backend enforces `protection` where it works at all.
    #[must_use]
    pub fn strength(self, protection: Protection) -> Strength {
        match self {
            Self::Bwrap => bwrap::strength(protection),
            Self::Namespace => namespace::strength(protection),
            Self::Landlock => landlock::strength(protection),
            Self::Seatbelt => seatbelt::strength(protection),
            Self::Container(_) => container::strength(protection),
            Self::JobObject => jobobject::strength(protection),
            Self::None => none::strength(protection),
        }
    }

    /// How many processes of our own are beside the target: the launcher program, or the warden, and the inner stage, or that
    /// alone.
    #[must_use]
    pub fn own_processes(self) -> u64 {
        match self {
            Self::Bwrap | Self::Landlock => 2,
            // What builds the sandbox, and `sandbox-exec`, become the inner stage.
            Self::Namespace | Self::Seatbelt | Self::Container(_) | Self::JobObject | Self::None => 1,
        }
    }

    /// Whether the target sees a file view and processes of its own.
    #[must_use]
    pub fn has_view(self) -> bool {
        match self {
            Self::Bwrap | Self::Namespace | Self::Container(_) => true,
            Self::Landlock | Self::Seatbelt | Self::JobObject | Self::None => false,
        }
    }

    /// Whether the rules of a plan about paths hold: by a view, or by permissions on the host's own files.
    #[must_use]
    pub fn keeps_rules(self) -> bool {
        match self {
            Self::Bwrap | Self::Namespace | Self::Landlock | Self::Seatbelt | Self::Container(_) => true,
            Self::JobObject | Self::None => false,
        }
    }

    /// Whether the filter of system calls is put on the target, and nothing of a run outlives it.
    #[must_use]
    pub fn filters(self) -> bool {
        match self {
            Self::Bwrap | Self::Namespace | Self::Landlock | Self::Container(_) => true,
            Self::Seatbelt | Self::JobObject | Self::None => false,
        }
    }
}

/// What it takes to start `plan`, or why its backend cannot say it. `tools` holds what was found of the programs that backends need.
pub fn launch(plan: &Plan, tools: &Tools) -> Result<Launch> {
    match plan.backend {
        Backend::Bwrap => Ok(bwrap::launch(plan, &tools.bwrap, tools.features)),
        Backend::Namespace => Ok(namespace::launch(plan)),
        Backend::Landlock => Ok(landlock::launch(plan)),
        Backend::Seatbelt => seatbelt::launch(plan),
        Backend::Container(_) => container::launch(plan, tools.engine.as_ref()),
        Backend::JobObject => Err(jobobject::of_windows()),
        Backend::None => Ok(none::launch(plan)),
    }
}

/// Refuses a launch that its program would refuse, with the numbers.
pub fn check_size(launch: &Launch) -> Result<()> {
    let Launch::Program(command) = launch else { return Ok(()) };
    if command.door.is_some() {
        return container::check_size(command);
    }
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
    /// The container engine, where one is needed.
    pub engine: Option<container::Found>,
}

impl Tools {
    /// The program that `backend` starts.
    #[must_use]
    pub fn program(&self, backend: Backend) -> Option<&std::path::Path> {
        match backend {
            Backend::Bwrap => Some(&self.bwrap),
            Backend::Container(_) => self.engine.as_ref().map(|engine| engine.program.as_path()),
            Backend::Namespace | Backend::Landlock | Backend::Seatbelt | Backend::JobObject | Backend::None => None,
        }
    }
}
