//! The exit status: a public contract, one enum, one table, the only mapping to numbers.
//!
//! Help, man page and README show [`TABLE`]; a test compares them. 255 is never ours, since `xargs` and `ssh` reserve it.

use crate::error::Kind;
use crate::policy::limits::Limit;

/// The rows of the contract: status, when.
pub const TABLE: &[(&str, &str)] = &[
    ("the target's own", "it ran and exited"),
    ("124", "the time or output limit ended it"),
    ("125", "sandbox-run itself failed before the target started: usage, policy, backend, gap"),
    ("126", "target found, cannot be executed (or its interpreter is missing: the message names it)"),
    ("127", "target not found"),
    ("128+n", "target died of signal n"),
];

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// There was nothing to run (`--help`, `--dry-run`, `--check`) and it went well.
    Done,
    /// The target ran and exited by itself.
    Exited(u8),
    /// The target ran and a signal ended it.
    Signaled(i32),
    /// We ended it, because it reached this limit.
    Limited(Limit),
    /// Ctrl-C on the terminal that the target shared with us ended it: `main` lets the same signal end this process.
    Interrupted,
    /// The target never started. Where that is for a signal, `main` lets it end this process.
    Failed(Kind),
}

impl Status {
    /// The number given to the caller.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Exited(code) => code,
            Self::Signaled(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX - 1),
            Self::Limited(Limit::Time | Limit::Output) => 124,
            // These end a target by SIGKILL.
            Self::Limited(Limit::Memory | Limit::Cpu | Limit::FileSize | Limit::Procs) => 137,
            Self::Interrupted => 130,
            Self::Failed(kind) => match kind {
                Kind::Usage | Kind::Policy | Kind::Gap | Kind::Backend => 125,
                Kind::NotExecutable => 126,
                Kind::NotFound | Kind::Hidden => 127,
                Kind::Interrupted(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX - 1),
            },
        }
    }
}
